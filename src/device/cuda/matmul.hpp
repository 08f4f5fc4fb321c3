// Matrix products of row-major float32 matrices through cuBLASLt: shapes, algorithm and epilogue are chosen once, when
// the object is made; run() only enqueues. Strict float32: no TF32.
#pragma once

#include "device/cuda/context.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace muster::device::cuda {

/// d = op(a) op(b), [rows, columns] from an inner extent of `inner`; op transposes where asked for.
struct MatmulSpec {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool is_a_transposed = false;  ///< a lies as [inner, rows], else [rows, inner]
  bool is_b_transposed = false;  ///< b lies as [columns, inner], else [inner, columns]
  /// bias: d[r, c] += vector[c]; bias_relu: relu behind it; a_sums: vector[r] = sum over the inner extent of op(a)[r,
  /// :].
  enum class Epilogue { none, bias, bias_relu, a_sums } epilogue = Epilogue::none;
};

class Matmul {
 public:
  /// Null where cuBLASLt has no algorithm for it (the caller does the epilogue itself). A product without an epilogue
  /// that has none is Error(device).
  static std::unique_ptr<Matmul> make(Context& context, const MatmulSpec& spec);
  ~Matmul();
  /// vector: of the epilogue, else null.
  void run(const float* a, const float* b, float* d, float* vector);

 private:
  struct Plan;
  Matmul(Context& context, std::unique_ptr<Plan> plan);
  Context& context_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace muster::device::cuda
