// Dropout from the same counters as on the CPU: the mask of an element is a pure function of seed, step, row and place.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"
#include "device/cuda/random.cuh"

namespace muster::device::cuda {
namespace {

__global__ void dropout_kernel(const float* from, float* to, float rate, DropoutKey key, std::uint32_t first_row,
                               std::int64_t elements, std::int64_t count) {
  const float scale = 1.0f / (1.0f - rate);
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::uint32_t row = first_row + static_cast<std::uint32_t>(i / elements);
    to[i] = uniform_at(key, row, i % elements) >= rate ? from[i] * scale : 0.0f;
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
