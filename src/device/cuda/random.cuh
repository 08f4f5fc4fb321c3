// The random numbers of muster::RandomStream on the device: Philox4x32-10, Salmon et al. 2011, section 3.3, with the keys
// and counters that RandomStream makes.
#pragma once

#include "device/cuda/kernels.hpp"
#include "device/cuda/language.cuh"

namespace muster::device::cuda {

/// Word element % 4 of the block element / 4 of the stream of `row`.
__device__ inline std::uint32_t random_word(DropoutKey key, std::uint32_t row, std::int64_t element) {
  std::uint32_t a = key.counter[0], b = key.counter[1], c = row, d = static_cast<std::uint32_t>(element / 4);
  std::uint32_t key_0 = key.key[0], key_1 = key.key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53u} * a, odd = std::uint64_t{0xCD9E8D57u} * c;
    a = static_cast<std::uint32_t>(odd >> 32) ^ b ^ key_0;
    b = static_cast<std::uint32_t>(odd);
    c = static_cast<std::uint32_t>(even >> 32) ^ d ^ key_1;
    d = static_cast<std::uint32_t>(even);
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  switch (element % 4) {
    case 0:
      return a;
    case 1:
      return b;
    case 2:
      return c;
    default:
      return d;
  }
}

/// RandomStream::uniform(element) of the stream of `row`.
__device__ inline float uniform_at(DropoutKey key, std::uint32_t row, std::int64_t element) {
  return static_cast<float>(random_word(key, row, element) >> 8) * 0x1p-24f;
}

}  // namespace muster::device::cuda
