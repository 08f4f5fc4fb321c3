// Elementary functions without branches or library calls, so that loops over them become vector instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::device::cpu {

/// e^x to 2 units in the last place, for x clamped to [-87.3, 88.3]; NaN stays. The argument is cut into a multiple of
/// log 2 and a rest, whose exponential is a polynomial (Cody and Waite 1980; coefficients of the Cephes library).
inline float vector_exp(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.3f ? 88.3f : x;
  constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves whole numbers
  const float shifted = x * 1.44269504f + round, n = shifted - round;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t power = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(round) + 127;
  return p * std::bit_cast<float>(static_cast<std::uint32_t>(power) << 23);
}

inline float vector_sigmoid(float x) { return 1.0f / (1.0f + vector_exp(-x)); }

/// Good to 1e-7 in absolute terms (not relative to small results).
inline float vector_tanh(float x) { return 1.0f - 2.0f / (vector_exp(2.0f * x) + 1.0f); }

}  // namespace muster::device::cpu
