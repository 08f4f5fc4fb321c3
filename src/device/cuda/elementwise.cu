// Element by element: additions, masks, activation curves.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void add_into_kernel(float* to, const float* from, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) to[i] += from[i];
}

__global__ void add_kernel(const float* a, const float* b, float* y, bool has_relu, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float sum = a[i] + b[i];
    y[i] = has_relu && sum <= 0.0f ? 0.0f : sum;
  }
}

__global__ void mask_kernel(const float* y, const float* dy, float* dx, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

struct Point {
  float value, slope;
};

__device__ Point gelu(float x) {
  const float root_half = 0.70710678f, root_two_pi = 2.50662827f;
  const float cdf = 0.5f * (1.0f + erff(x * root_half));
  return {x * cdf, cdf + x * expf(-0.5f * x * x) / root_two_pi};
}

__device__ Point gelu_tanh(float x) {
  const float k = 0.79788456f, c = 0.044715f;
  const float t = tanhf(k * (x + c * x * x * x));
  return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * k * (1.0f + 3.0f * c * x * x)};
}

__device__ Point point_of(Curve curve, float slope, float x) {
  switch (curve) {
    case Curve::relu:
      return x <= 0.0f ? Point{0.0f, 0.0f} : Point{x, 1.0f};  // NaN stays NaN: divergence must show
    case Curve::leaky_relu:
      return x > 0.0f ? Point{x, 1.0f} : Point{slope * x, slope};
    case Curve::silu: {
      const float s = 1.0f / (1.0f + expf(-x));
      return {x * s, s * (1.0f + x * (1.0f - s))};
    }
    case Curve::tanh: {
      const float t = tanhf(x);
      return {t, 1.0f - t * t};
    }
    case Curve::sigmoid: {
      const float s = 1.0f / (1.0f + expf(-x));
      return {s, s * (1.0f - s)};
    }
    case Curve::gelu_tanh:
      return gelu_tanh(x);
    case Curve::gelu:
      break;
  }
  return gelu(x);
}

__global__ void curve_kernel(Curve curve, float slope, const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) y[i] = point_of(curve, slope, x[i]).value;
}

__global__ void curve_gradient_kernel(Curve curve, float slope, const float* x, const float* dy, float* dx,
                                      std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads())
    dx[i] = dy[i] * point_of(curve, slope, x[i]).slope;
}

}  // namespace

cudaError_t add_into(float* to, const float* from, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(add_into_kernel, grid_of(count), block_threads, stream, to, from, count);
  return cudaGetLastError();
}

cudaError_t add(const float* a, const float* b, float* y, bool has_relu, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(add_kernel, grid_of(count), block_threads, stream, a, b, y, has_relu, count);
  return cudaGetLastError();
}

cudaError_t mask_by_relu(const float* y, const float* dy, float* dx, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(mask_kernel, grid_of(count), block_threads, stream, y, dy, dx, count);
  return cudaGetLastError();
}

cudaError_t apply_curve(Curve curve, float slope, const float* x, float* y, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(curve_kernel, grid_of(count), block_threads, stream, curve, slope, x, y, count);
  return cudaGetLastError();
}

cudaError_t apply_curve_gradient(Curve curve, float slope, const float* x, const float* dy, float* dx,
                                 std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(curve_gradient_kernel, grid_of(count), block_threads, stream, curve, slope, x, dy, dx, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
