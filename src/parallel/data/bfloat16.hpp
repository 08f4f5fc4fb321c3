// Rounding float to bfloat16 (nearest, ties to even; NaN stays NaN), in loops the compiler vectorises.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::parallel {

inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;  // a NaN's payload could round to infinity
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

inline float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline void encode_bfloat16(const float* from, std::int64_t n, std::uint16_t* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

inline void decode_bfloat16(const std::uint16_t* from, std::int64_t n, float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = from_bfloat16(from[i]);
}

inline void round_bfloat16(const float* from, std::int64_t n, float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = from_bfloat16(to_bfloat16(from[i]));
}

}  // namespace muster::parallel
