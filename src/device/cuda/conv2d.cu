// Convolution by direct sums: a thread per element of the result (a block per weight where the sum runs over the whole
// batch), every sum in a fixed order. The plain way that takes every stride, padding, dilation and grouping.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void forward_kernel(const float* x, const float* weight, const float* bias, float* y, bool has_relu,
                               ConvShape s, std::int64_t count) {
  const std::int64_t inner = s.c / s.groups, per_group = s.filters / s.groups;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t column = i % s.ow * s.stride_w - s.left, row = i / s.ow % s.oh * s.stride_h - s.top;
    const std::int64_t filter = i / (s.ow * s.oh) % s.filters, n = i / (s.ow * s.oh * s.filters);
    float sum = bias == nullptr ? 0.0f : bias[filter];
    for (std::int64_t k = 0; k < inner; ++k) {
      const float* plane = x + (n * s.c + filter / per_group * inner + k) * s.h * s.w;
      const float* taps = weight + (filter * inner + k) * s.kernel_h * s.kernel_w;
      for (std::int64_t a = 0; a < s.kernel_h; ++a)
        for (std::int64_t b = 0; b < s.kernel_w; ++b) {
          const std::int64_t at_row = row + a * s.dilation_h, at_column = column + b * s.dilation_w;
          if (at_row >= 0 && at_row < s.h && at_column >= 0 && at_column < s.w)
            sum += plane[at_row * s.w + at_column] * taps[a * s.kernel_w + b];
        }
    }
    y[i] = has_relu && sum <= 0.0f ? 0.0f : sum;
  }
}

/// Index of the result whose window has tap `tap` at position `at` (padding included); -1: none.
__device__ std::int64_t result_at(std::int64_t at, std::int64_t tap, std::int64_t stride, std::int64_t results) {
  const std::int64_t start = at - tap;
  return start >= 0 && start % stride == 0 && start / stride < results ? start / stride : -1;
}

__global__ void input_kernel(const float* dy, const float* weight, float* dx, ConvShape s, std::int64_t count) {
  const std::int64_t inner = s.c / s.groups, per_group = s.filters / s.groups;
  for (std::int64_t e = first_element(); e < count; e += all_threads()) {
    const std::int64_t column = e % s.w + s.left, row = e / s.w % s.h + s.top;
    const std::int64_t channel = e / (s.w * s.h) % s.c, n = e / (s.w * s.h * s.c), group = channel / inner;
    float sum = 0.0f;
    for (std::int64_t filter = group * per_group; filter < (group + 1) * per_group; ++filter) {
      const float* plane = dy + (n * s.filters + filter) * s.oh * s.ow;
      const float* taps = weight + (filter * inner + channel % inner) * s.kernel_h * s.kernel_w;
      for (std::int64_t a = 0; a < s.kernel_h; ++a)
        for (std::int64_t b = 0; b < s.kernel_w; ++b) {
          const std::int64_t i = result_at(row, a * s.dilation_h, s.stride_h, s.oh);
          const std::int64_t j = result_at(column, b * s.dilation_w, s.stride_w, s.ow);
          if (i >= 0 && j >= 0) sum += plane[i * s.ow + j] * taps[a * s.kernel_w + b];
        }
    }
    dx[e] = sum;
  }
}

__global__ void weight_kernel(const float* x, const float* dy, float* weight_grad, ConvShape s, std::int64_t weights) {
  GPU_SHARED(float, room, block_threads);
  const std::int64_t inner = s.c / s.groups, per_group = s.filters / s.groups;
  for (std::int64_t tap = blockIdx.x; tap < weights; tap += gridDim.x) {
    const std::int64_t b = tap % s.kernel_w, a = tap / s.kernel_w % s.kernel_h;
    const std::int64_t k = tap / (s.kernel_w * s.kernel_h) % inner, filter = tap / (s.kernel_w * s.kernel_h * inner);
    const std::int64_t channel = filter / per_group * inner + k;
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < s.n * s.oh * s.ow; i += blockDim.x) {
      const std::int64_t n = i / (s.oh * s.ow), row = i / s.ow % s.oh * s.stride_h - s.top + a * s.dilation_h;
      const std::int64_t column = i % s.ow * s.stride_w - s.left + b * s.dilation_w;
      if (row >= 0 && row < s.h && column >= 0 && column < s.w)
        sum += x[((n * s.c + channel) * s.h + row) * s.w + column] *
               dy[(n * s.filters + filter) * s.oh * s.ow + i % (s.oh * s.ow)];
    }
    sum = over_block<SumOf>(sum, room);
    if (threadIdx.x == 0) weight_grad[tap] = sum;
  }
}

__global__ void finish_kernel(float* y, const float* bias, bool has_relu, ConvShape s, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float sum = bias == nullptr ? y[i] : y[i] + bias[i / (s.oh * s.ow) % s.filters];
    y[i] = has_relu && sum <= 0.0f ? 0.0f : sum;
  }
}

__global__ void bias_kernel(const float* dy, float* bias_grad, ConvShape s) {
  GPU_SHARED(float, room, block_threads);
  const std::int64_t image = s.oh * s.ow;
  for (std::int64_t filter = blockIdx.x; filter < s.filters; filter += gridDim.x) {
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < s.n * image; i += blockDim.x)
      sum += dy[(i / image * s.filters + filter) * image + i % image];
    sum = over_block<SumOf>(sum, room);
    if (threadIdx.x == 0) bias_grad[filter] = sum;
  }
}

}  // namespace

cudaError_t convolve(const float* x, const float* weight, const float* bias, float* y, bool has_relu, ConvShape shape,
                     cudaStream_t stream) {
  const std::int64_t count = shape.n * shape.filters * shape.oh * shape.ow;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(forward_kernel, grid_of(count), block_threads, stream, x, weight, bias, y, has_relu, shape, count);
  return cudaGetLastError();
}

cudaError_t convolve_input_gradient(const float* dy, const float* weight, float* dx, ConvShape shape,
                                    cudaStream_t stream) {
  const std::int64_t count = shape.n * shape.c * shape.h * shape.w;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(input_kernel, grid_of(count), block_threads, stream, dy, weight, dx, shape, count);
  return cudaGetLastError();
}

cudaError_t convolve_weight_gradient(const float* x, const float* dy, float* weight_grad, ConvShape shape,
                                     cudaStream_t stream) {
  const std::int64_t weights = shape.filters * (shape.c / shape.groups) * shape.kernel_h * shape.kernel_w;
  if (weights == 0) return cudaSuccess;
  GPU_LAUNCH(weight_kernel, grid_of_rows(weights), block_threads, stream, x, dy, weight_grad, shape, weights);
  return cudaGetLastError();
}

cudaError_t convolve_bias_gradient(const float* dy, float* bias_grad, ConvShape shape, cudaStream_t stream) {
  GPU_LAUNCH(bias_kernel, grid_of_rows(shape.filters), block_threads, stream, dy, bias_grad, shape);
  return cudaGetLastError();
}

cudaError_t finish_convolution(float* y, const float* bias, bool has_relu, ConvShape shape, cudaStream_t stream) {
  const std::int64_t count = shape.n * shape.filters * shape.oh * shape.ow;
  if (count == 0 || (bias == nullptr && !has_relu)) return cudaSuccess;
  GPU_LAUNCH(finish_kernel, grid_of(count), block_threads, stream, y, bias, has_relu, shape, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
