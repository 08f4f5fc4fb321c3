// The sum of parts along the grain tree, one pass over memory: blocks that fit the first-level cache go through all the
// tree's additions before the next block is touched. Pure; the bits depend on the tree alone, not on threads or blocks.
#pragma once

#include <muster/parallel/data/grains.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace muster::parallel {

/// How a part's elements lie in memory: float; float that counts as rounded to bfloat16; bfloat16.
enum class Encoding : std::uint8_t { fp32, fp32_rounded, bf16 };

constexpr std::int64_t bytes_of(Encoding encoding) { return encoding == Encoding::bf16 ? 2 : 4; }

struct Part {
  const void* data = nullptr;
  Encoding encoding = Encoding::fp32;
};

class TreeSum {
 public:
  TreeSum() = default;
  /// The parts tile a node of the tree over `grains` (additions() in grains.hpp).
  TreeSum(std::int64_t grains, const std::vector<Subtree>& parts);

  /// out[i] = sum of the parts' elements i, i < n; parts in the order given to the constructor. No parts: zero. `out`
  /// may be one of the parts.
  void run(std::span<const Part> parts, std::int64_t n, float* out, bool rounds_result, int threads) const;

 private:
  // Operands: part k is k, register k of the block machine is -1 - k; the last result goes to `out`.
  struct Instruction {
    int into;
    int left;
    int right;
  };
  void run_block(std::span<const Part> parts, std::int64_t begin, std::int64_t n, float* out, bool rounds_result) const;

  std::size_t parts_ = 0;
  std::vector<Instruction> program_;
};

}  // namespace muster::parallel
