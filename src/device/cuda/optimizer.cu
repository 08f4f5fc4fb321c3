// Updates of a slice, element by element; formulas and names as in the files of src/optim.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void sgd_kernel(float* w, const float* g, float* v, SgdStep step, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float d = step.scale * g[i] + step.decay * w[i];
    float direction = d;
    if (v != nullptr) {
      const float velocity = step.momentum * v[i] + d;
      v[i] = velocity;
      direction = step.is_nesterov ? d + step.momentum * velocity : velocity;
    }
    w[i] -= step.lr * direction;
  }
}

__global__ void rmsprop_kernel(float* w, const float* g, float* s, RmsPropStep step, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float d = step.scale * g[i] + step.decay * w[i];
    const float average = step.rate * s[i] + step.rest * d * d;
    s[i] = average;
    w[i] -= step.lr * d / (sqrtf(average) + step.epsilon);
  }
}

__global__ void adam_kernel(float* w, const float* g, float* m, float* v, AdamStep step, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float d = step.scale * g[i] + step.coupled * w[i];
    const float mean = step.beta1 * m[i] + step.rest1 * d, square = step.beta2 * v[i] + step.rest2 * d * d;
    m[i] = mean;
    v[i] = square;
    w[i] = step.shrink * w[i] - step.step_size * mean / (sqrtf(square) * step.inverse_root + step.epsilon);
  }
}

}  // namespace

cudaError_t sgd(float* w, const float* g, float* v, SgdStep step, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(sgd_kernel, grid_of(count), block_threads, stream, w, g, v, step, count);
  return cudaGetLastError();
}

cudaError_t rmsprop(float* w, const float* g, float* s, RmsPropStep step, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(rmsprop_kernel, grid_of(count), block_threads, stream, w, g, s, step, count);
  return cudaGetLastError();
}

cudaError_t adam(float* w, const float* g, float* m, float* v, AdamStep step, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(adam_kernel, grid_of(count), block_threads, stream, w, g, m, v, step, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
