// Root-mean-square normalisation, a block per row (Zhang and Sennrich 2019). Backward, with xhat = x r, g = dy gamma:
//   dx = r (g - xhat mean(g xhat));  dgamma = sum over rows of dy xhat
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void forward_kernel(const float* x, const float* gamma, float* y, float* inverses, float epsilon,
                               std::int64_t rows, std::int64_t columns) {
  GPU_SHARED(float, room, block_threads);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float* row = x + r * columns;
    float squares = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) squares += row[c] * row[c];
    const float inverse = 1.0f / sqrtf(over_block<SumOf>(squares, room) / static_cast<float>(columns) + epsilon);
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) y[r * columns + c] = row[c] * inverse * gamma[c];
    if (threadIdx.x == 0) inverses[r] = inverse;
  }
}

__global__ void gamma_kernel(const float* x, const float* inverses, const float* dy, float* gamma_grad,
                             std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = first_element(); c < columns; c += all_threads()) {
    float sum = 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) sum += dy[r * columns + c] * (x[r * columns + c] * inverses[r]);
    gamma_grad[c] = sum;
  }
}

__global__ void input_kernel(const float* x, const float* gamma, const float* inverses, const float* dy, float* dx,
                             std::int64_t rows, std::int64_t columns) {
  GPU_SHARED(float, room, block_threads);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float inverse = inverses[r];
    float product = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x)
      product += dy[r * columns + c] * gamma[c] * (x[r * columns + c] * inverse);
    const float mean = over_block<SumOf>(product, room) / static_cast<float>(columns);
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x)
      dx[r * columns + c] = inverse * (dy[r * columns + c] * gamma[c] - x[r * columns + c] * inverse * mean);
  }
}

}  // namespace

cudaError_t rms_norm(const float* x, const float* gamma, float* y, float* inverses, float epsilon, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(forward_kernel, grid_of_rows(rows), block_threads, stream, x, gamma, y, inverses, epsilon, rows, columns);
  return cudaGetLastError();
}

cudaError_t rms_norm_gradient(const float* x, const float* gamma, const float* inverses, const float* dy, float* dx,
                              float* gamma_grad, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (columns == 0) return cudaSuccess;
  GPU_LAUNCH(gamma_kernel, grid_of(columns), block_threads, stream, x, inverses, dy, gamma_grad, rows, columns);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess || dx == nullptr || rows == 0) return status;
  GPU_LAUNCH(input_kernel, grid_of_rows(rows), block_threads, stream, x, gamma, inverses, dy, dx, rows, columns);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
