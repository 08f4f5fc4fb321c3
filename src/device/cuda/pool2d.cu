// Pooling. Backward gathers: a thread per element of the image visits the windows over it in order, so that nothing is
// added atomically and the bits are the same in every run.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

/// The part of a window inside its image.
struct Window {
  std::int64_t first_row, last_row, first_column, last_column;  // last: one behind
  __device__ float count() const {
    return static_cast<float>((last_row - first_row) * (last_column - first_column));
  }
};

__device__ Window window_of(const PoolShape& s, std::int64_t i, std::int64_t j) {
  const std::int64_t row = i * s.stride_h - s.top, column = j * s.stride_w - s.left;
  return {row > 0 ? row : 0, row + s.kernel_h < s.h ? row + s.kernel_h : s.h, column > 0 ? column : 0,
          column + s.kernel_w < s.w ? column + s.kernel_w : s.w};
}

/// Index in the plane of the largest element: the first in row-major order; NaN wins.
__device__ std::int64_t largest(const float* plane, const PoolShape& s, const Window& window) {
  std::int64_t best = window.first_row * s.w + window.first_column;
  for (std::int64_t a = window.first_row; a < window.last_row; ++a)
    for (std::int64_t b = window.first_column; b < window.last_column; ++b) {
      const float value = plane[a * s.w + b], held = plane[best];
      if (value > held || (value != value && held == held)) best = a * s.w + b;
    }
  return best;
}

__global__ void forward_kernel(const float* x, float* y, PoolShape s, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float* plane = x + i / (s.oh * s.ow) * s.h * s.w;
    const Window window = window_of(s, i / s.ow % s.oh, i % s.ow);
    if (s.is_max) {
      y[i] = plane[largest(plane, s, window)];
      continue;
    }
    float sum = 0.0f;
    for (std::int64_t a = window.first_row; a < window.last_row; ++a)
      for (std::int64_t b = window.first_column; b < window.last_column; ++b) sum += plane[a * s.w + b];
    y[i] = sum / window.count();
  }
}

__device__ std::int64_t first_window(std::int64_t at, std::int64_t kernel, std::int64_t stride) {
  return at < kernel ? 0 : (at - kernel) / stride + 1;
}
__device__ std::int64_t behind_last_window(std::int64_t at, std::int64_t stride, std::int64_t windows) {
  const std::int64_t last = at / stride + 1;
  return last < windows ? last : windows;
}

__global__ void backward_kernel(const float* x, const float* dy, float* dx, PoolShape s, std::int64_t count) {
  for (std::int64_t e = first_element(); e < count; e += all_threads()) {
    const std::int64_t plane = e / (s.h * s.w), row = e / s.w % s.h + s.top, column = e % s.w + s.left;
    const std::int64_t i_end = behind_last_window(row, s.stride_h, s.oh);
    const std::int64_t j_end = behind_last_window(column, s.stride_w, s.ow);
    float sum = 0.0f;
    for (std::int64_t i = first_window(row, s.kernel_h, s.stride_h); i < i_end; ++i)
      for (std::int64_t j = first_window(column, s.kernel_w, s.stride_w); j < j_end; ++j) {
        const Window window = window_of(s, i, j);
        const float g = dy[(plane * s.oh + i) * s.ow + j];
        if (!s.is_max) sum += g / window.count();
        else if (largest(x + plane * s.h * s.w, s, window) == e % (s.h * s.w)) sum += g;
      }
    dx[e] = sum;
  }
}

}  // namespace

cudaError_t pool(const float* x, float* y, PoolShape shape, cudaStream_t stream) {
  const std::int64_t count = shape.planes * shape.oh * shape.ow;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(forward_kernel, grid_of(count), block_threads, stream, x, y, shape, count);
  return cudaGetLastError();
}

cudaError_t pool_gradient(const float* x, const float* dy, float* dx, PoolShape shape, cudaStream_t stream) {
  const std::int64_t count = shape.planes * shape.h * shape.w;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(backward_kernel, grid_of(count), block_threads, stream, x, dy, dx, shape, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
