#include "parallel/data/tree_sum.hpp"

#include "parallel/data/bfloat16.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <cstring>

namespace muster::parallel {
namespace {

constexpr std::int64_t block = 1024;             // floats: 4 KiB per register
constexpr int registers = 24;                    // as many as a tree of 2^24 leaves needs
constexpr std::int64_t parallel_from = 1 << 16;  // below, starting threads costs more than it saves

const void* element(const Part& part, std::int64_t index) {
  return static_cast<const std::byte*>(part.data) + index * bytes_of(part.encoding);
}

/// The part's block as floats: in place where it can be, else decoded into `room`.
const float* load(const Part& part, std::int64_t begin, std::int64_t n, float* room) {
  const void* data = element(part, begin);
  switch (part.encoding) {
    case Encoding::fp32:
      return static_cast<const float*>(data);
    case Encoding::fp32_rounded:
      round_bfloat16(static_cast<const float*>(data), n, room);
      return room;
    case Encoding::bf16:
      decode_bfloat16(static_cast<const std::uint16_t*>(data), n, room);
      return room;
  }
  return room;
}

}  // namespace

TreeSum::TreeSum(std::int64_t grains, const std::vector<Subtree>& parts) : parts_(parts.size()) {
  std::vector<int> value(parts.size());  // where part i's sum so far lies
  for (std::size_t i = 0; i < parts.size(); ++i) value[i] = static_cast<int>(i);
  std::vector<bool> is_used(registers, false);
  for (const Addition& addition : additions(grains, parts)) {
    int& left = value[static_cast<std::size_t>(addition.into)];
    const int right = value[static_cast<std::size_t>(addition.from)];
    for (int operand : {left, right})
      if (operand < 0) is_used[static_cast<std::size_t>(-1 - operand)] = false;
    const auto free = std::find(is_used.begin(), is_used.end(), false);
    MUSTER_CHECK(free != is_used.end(), "{} parts need more than {} registers", parts.size(), registers);
    *free = true;
    const int into = -1 - static_cast<int>(free - is_used.begin());
    program_.push_back({into, left, right});
    left = into;
  }
}

void TreeSum::run(std::span<const Part> parts, std::int64_t n, float* out, bool rounds_result, int threads) const {
  MUSTER_CHECK_EQ(parts.size(), parts_);
  const std::int64_t blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && n >= parallel_from)
  for (std::int64_t b = 0; b < blocks; ++b)
    run_block(parts, b * block, std::min(block, n - b * block), out, rounds_result);
}

void TreeSum::run_block(std::span<const Part> parts, std::int64_t begin, std::int64_t n, float* out,
                        bool rounds_result) const {
  alignas(64) float bank[registers][block];
  alignas(64) float left_room[block];
  alignas(64) float right_room[block];
  float* to = out + begin;
  const auto operand = [&](int at, float* room) -> const float* {
    return at < 0 ? bank[-1 - at] : load(parts[static_cast<std::size_t>(at)], begin, n, room);
  };
  if (program_.empty()) {
    if (parts_ == 0) std::fill_n(to, n, 0.0f);
    else if (const float* only = operand(0, left_room); only != to)
      std::memcpy(to, only, static_cast<std::size_t>(n) * sizeof(float));
  }
  for (std::size_t k = 0; k < program_.size(); ++k) {
    const Instruction& step = program_[k];
    const float* left = operand(step.left, left_room);
    const float* right = operand(step.right, right_room);
    float* into = k + 1 == program_.size() ? to : bank[-1 - step.into];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) into[i] = left[i] + right[i];
  }
  if (rounds_result) round_bfloat16(to, n, to);
}

}  // namespace muster::parallel
