// Layer normalisation, a block per row (Ba et al. 2016). Backward, with xhat = (x - mean) / sigma and g = dy gamma:
//   dx = (g - mean(g) - xhat mean(g xhat)) / sigma;  dgamma = sum over rows of dy xhat;  dbeta = sum of dy
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void forward_kernel(const float* x, const float* gamma, const float* beta, float* y, float* moments,
                               float epsilon, std::int64_t rows, std::int64_t columns) {
  GPU_SHARED(float, room, block_threads);
  const float count = static_cast<float>(columns);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float* row = x + r * columns;
    float sum = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
    const float mean = over_block<SumOf>(sum, room) / count;
    float squares = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) squares += (row[c] - mean) * (row[c] - mean);
    const float inverse = 1.0f / sqrtf(over_block<SumOf>(squares, room) / count + epsilon);
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x)
      y[r * columns + c] = gamma[c] * ((row[c] - mean) * inverse) + beta[c];
    if (threadIdx.x == 0) {
      moments[2 * r] = mean;
      moments[2 * r + 1] = inverse;
    }
  }
}

__global__ void params_kernel(const float* x, const float* moments, const float* dy, float* gamma_grad,
                              float* beta_grad, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = first_element(); c < columns; c += all_threads()) {
    float for_gamma = 0.0f, for_beta = 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float g = dy[r * columns + c];
      for_gamma += g * ((x[r * columns + c] - moments[2 * r]) * moments[2 * r + 1]);
      for_beta += g;
    }
    gamma_grad[c] = for_gamma;
    beta_grad[c] = for_beta;
  }
}

__global__ void input_kernel(const float* x, const float* gamma, const float* moments, const float* dy, float* dx,
                             std::int64_t rows, std::int64_t columns) {
  GPU_SHARED(float, room, block_threads);
  const float count = static_cast<float>(columns);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float mean = moments[2 * r], inverse = moments[2 * r + 1];
    float sum = 0.0f, with_x = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const float g = dy[r * columns + c] * gamma[c];
      sum += g;
      with_x += g * ((x[r * columns + c] - mean) * inverse);
    }
    const float mean_g = over_block<SumOf>(sum, room) / count;
    const float mean_gx = over_block<SumOf>(with_x, room) / count;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const float xhat = (x[r * columns + c] - mean) * inverse;
      dx[r * columns + c] = inverse * (dy[r * columns + c] * gamma[c] - mean_g - xhat * mean_gx);
    }
  }
}

}  // namespace

cudaError_t layer_norm(const float* x, const float* gamma, const float* beta, float* y, float* moments, float epsilon,
                       std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(forward_kernel, grid_of_rows(rows), block_threads, stream, x, gamma, beta, y, moments, epsilon, rows,
             columns);
  return cudaGetLastError();
}

cudaError_t layer_norm_gradient(const float* x, const float* gamma, const float* moments, const float* dy, float* dx,
                                float* gamma_grad, float* beta_grad, std::int64_t rows, std::int64_t columns,
                                cudaStream_t stream) {
  if (columns == 0) return cudaSuccess;
  GPU_LAUNCH(params_kernel, grid_of(columns), block_threads, stream, x, moments, dy, gamma_grad, beta_grad, rows,
             columns);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess || dx == nullptr || rows == 0) return status;
  GPU_LAUNCH(input_kernel, grid_of_rows(rows), block_threads, stream, x, gamma, moments, dy, dx, rows, columns);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
