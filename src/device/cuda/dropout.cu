// Dropout from the same counters as on the CPU: the mask of an element is a pure function of seed, step, row and place.
// Philox4x32-10, Salmon et al. 2011, section 3.3; keys and counters as muster::RandomStream makes them.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

/// Word element % 4 of the block element / 4 of the stream of `row`.
__device__ std::uint32_t random_word(DropoutKey key, std::uint32_t row, std::int64_t element) {
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

__global__ void dropout_kernel(const float* from, float* to, float rate, DropoutKey key, std::uint32_t first_row,
                               std::int64_t elements, std::int64_t count) {
  const float scale = 1.0f / (1.0f - rate);
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::uint32_t word = random_word(key, first_row + static_cast<std::uint32_t>(i / elements), i % elements);
    const float uniform = static_cast<float>(word >> 8) * 0x1p-24f;
    to[i] = uniform >= rate ? from[i] * scale : 0.0f;
  }
}

}  // namespace

cudaError_t dropout(const float* from, float* to, float rate, DropoutKey key, std::uint32_t first_row,
                    std::int64_t rows, std::int64_t elements, cudaStream_t stream) {
  const std::int64_t count = rows * elements;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(dropout_kernel, grid_of(count), block_threads, stream, from, to, rate, key, first_row, elements, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
