#include <muster/base/rng.hpp>

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster {
namespace {

constexpr int lanes = 16;  // blocks computed side by side

using Lanes = std::array<std::uint32_t, lanes>;

/// Philox4x32-10 of `lanes` counters that differ in their last word only, in plain arrays so that the compiler makes
/// vector code of it; constants and rounds as in Salmon et al. 2011, section 3.3.
void philox_lanes(std::array<Lanes, 4>& counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint32_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
  auto& [a, b, c, d] = counter;
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::uint64_t even = std::uint64_t{multiplier_0} * a[i], odd = std::uint64_t{multiplier_1} * c[i];
      a[i] = static_cast<std::uint32_t>(odd >> 32) ^ b[i] ^ key[0];
      b[i] = static_cast<std::uint32_t>(odd);
      c[i] = static_cast<std::uint32_t>(even >> 32) ^ d[i] ^ key[1];
      d[i] = static_cast<std::uint32_t>(even);
    }
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t major, std::uint32_t minor) noexcept
    : key_{static_cast<std::uint32_t>(seed),
           static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) << 24)},
      counter_{static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(major >> 32), minor} {}

std::array<std::uint32_t, 4> RandomStream::block(std::uint32_t index) const noexcept {
  const r123::Philox4x32 philox;
  const auto result = philox({{counter_[0], counter_[1], counter_[2], index}}, {{key_[0], key_[1]}});
  return {result[0], result[1], result[2], result[3]};
}

void RandomStream::fill(std::uint32_t first_block, std::span<std::uint32_t> words) const noexcept {
  std::array<Lanes, 4> counter;
  for (std::size_t at = 0; at < words.size(); at += 4 * lanes, first_block += lanes) {
    for (std::size_t i = 0; i < lanes; ++i) {
      for (std::size_t w = 0; w < 3; ++w) counter[w][i] = counter_[w];
      counter[3][i] = first_block + static_cast<std::uint32_t>(i);
    }
    philox_lanes(counter, key_);
    const std::size_t count = std::min<std::size_t>(4 * lanes, words.size() - at);
    for (std::size_t k = 0; k < count; ++k) words[at + k] = counter[k % 4][k / 4];
  }
}

std::uint32_t RandomStream::bits(std::uint64_t element) const noexcept {
  return block(static_cast<std::uint32_t>(element / 4))[element % 4];
}

float RandomStream::uniform(std::uint64_t element) const noexcept { return unit(bits(element)); }

float RandomStream::normal(std::uint64_t element) const noexcept {
  const auto words = block(static_cast<std::uint32_t>(element / 2));
  return normal_pair(words[0], words[1])[element % 2];
}

std::array<float, 2> RandomStream::normal_pair(std::uint32_t first, std::uint32_t second) noexcept {
  // (0, 1] for the logarithm
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(first) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(second) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

std::uint32_t RandomStream::below(std::uint64_t element, std::uint32_t bound) const noexcept {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits(element)) * bound) >> 32);
}

}  // namespace muster
