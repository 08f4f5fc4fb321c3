// Losses with their gradients in one pass over each row, a block per row.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void softmax_kernel(const float* logits, const std::int32_t* labels, float* loss, float* grad,
                               float smoothing, float scale, std::int64_t rows, std::int64_t classes) {
  GPU_SHARED(float, room, block_threads);
  const float even = smoothing / static_cast<float>(classes);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float* row = logits + r * classes;
    const std::int64_t label = labels[r];
    float largest = -INFINITY;
    for (std::int64_t c = threadIdx.x; c < classes; c += blockDim.x) largest = MaxOf::join(row[c], largest);
    largest = over_block<MaxOf>(largest, room);
    float sum = 0.0f, plain = 0.0f;  // plain: sum of the logits above the largest, for the smoothed targets
    for (std::int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
      sum += expf(row[c] - largest);
      plain += row[c] - largest;
    }
    sum = over_block<SumOf>(sum, room);
    plain = over_block<SumOf>(plain, room);
    const float log_sum = logf(sum);
    if (threadIdx.x == 0) {
      const float right = row[label] - largest - log_sum;
      const float others = plain - static_cast<float>(classes) * log_sum;
      loss[r] = -(1.0f - smoothing) * right - (even > 0.0f ? even * others : 0.0f);
    }
    if (grad == nullptr) continue;
    for (std::int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
      const float target = (c == label ? 1.0f - smoothing : 0.0f) + even;
      grad[r * classes + c] = (expf(row[c] - largest - log_sum) - target) * scale;
    }
  }
}

struct Squared {
  __device__ static float loss(float v, float t) { return (v - t) * (v - t); }
  __device__ static float slope(float v, float t) { return 2.0f * (v - t); }
};
struct Binary {  // -t log s(v) - (1 - t) log(1 - s(v)), in a form that does not overflow
  __device__ static float loss(float v, float t) { return fmaxf(v, 0.0f) - v * t + log1pf(expf(-fabsf(v))); }
  __device__ static float slope(float v, float t) { return 1.0f / (1.0f + expf(-v)) - t; }
};

template <class Kind>
__global__ void regression_kernel(const float* values, const float* targets, float* loss, float* grad, float scale,
                                  std::int64_t rows, std::int64_t columns) {
  GPU_SHARED(float, room, block_threads);
  const float count = static_cast<float>(columns);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    float sum = 0.0f;
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const float v = values[r * columns + c], t = targets[r * columns + c];
      sum += Kind::loss(v, t);
      if (grad != nullptr) grad[r * columns + c] = Kind::slope(v, t) / count * scale;
    }
    sum = over_block<SumOf>(sum, room);
    if (threadIdx.x == 0) loss[r] = sum / count;
  }
}

__global__ void row_means_kernel(const float* x, float* means, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = first_element(); r < rows; r += all_threads()) {
    float sum = 0.0f;
    for (std::int64_t c = 0; c < columns; ++c) sum += x[r * columns + c];
    means[r] = sum / static_cast<float>(columns);
  }
}

}  // namespace

cudaError_t softmax_cross_entropy(const float* logits, const std::int32_t* labels, float* loss, float* grad,
                                  float smoothing, float scale, std::int64_t rows, std::int64_t classes,
                                  cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(softmax_kernel, grid_of_rows(rows), block_threads, stream, logits, labels, loss, grad, smoothing, scale,
             rows, classes);
  return cudaGetLastError();
}

cudaError_t mean_squared_error(const float* values, const float* targets, float* loss, float* grad, float scale,
                               std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(regression_kernel<Squared>, grid_of_rows(rows), block_threads, stream, values, targets, loss, grad, scale,
             rows, columns);
  return cudaGetLastError();
}

cudaError_t binary_cross_entropy(const float* values, const float* targets, float* loss, float* grad, float scale,
                                 std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(regression_kernel<Binary>, grid_of_rows(rows), block_threads, stream, values, targets, loss, grad, scale,
             rows, columns);
  return cudaGetLastError();
}

cudaError_t row_means(const float* x, float* means, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  GPU_LAUNCH(row_means_kernel, grid_of(rows), block_threads, stream, x, means, rows, columns);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
