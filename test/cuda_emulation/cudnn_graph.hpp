// What a graph of cuDNN computes, in plain loops: for the double, which leaves everything else to the real library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace emulation {

/// A float32 tensor of a graph. Virtual ones have no memory outside it.
struct GraphTensor {
  std::int64_t id = 0;
  std::vector<std::int64_t> dims, strides;  ///< elements
  bool is_virtual = false;

  std::int64_t at(const std::vector<std::int64_t>& index) const;  ///< index 0 where an extent is 1
  std::size_t bytes() const;                                      ///< from the first to the last element
};

struct GraphStep {
  enum class Kind { convolution, input_gradient, weight_gradient, add, relu } kind = Kind::add;
  GraphTensor x, weight, y;  ///< of a convolution; add: y = x + weight; relu: y of x
  std::vector<std::int64_t> strides, dilations, padding_before;
};

/// memory: of the tensors that are not virtual, by id; the host may touch it. Sums in double, rounded once.
void run_steps(const std::vector<GraphStep>& steps, const std::map<std::int64_t, float*>& memory);

}  // namespace emulation
