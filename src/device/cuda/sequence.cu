// Tokens and positions.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void embed_kernel(const float* ids, const float* weight, float* y, float* bad_id, std::int64_t vocabulary,
                             std::int64_t width, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float id = ids[i / width];
    if (id >= 0.0f && id < static_cast<float>(vocabulary)) {
      y[i] = weight[static_cast<std::int64_t>(id) * width + i % width];
    } else {
      *bad_id = id == id ? id : -1.0f;
      y[i] = NAN;
    }
  }
}

/// A block per token. The block of the first token with an id adds up the gradients of all tokens with that id, in
/// order; the others do nothing. No atomics: the same bits in every run.
__global__ void embed_gradient_kernel(const float* ids, const float* dy, float* weight_grad, std::int64_t vocabulary,
                                      std::int64_t tokens, std::int64_t width) {
  GPU_SHARED(float, room, block_threads);
  for (std::int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    const float id = ids[token];
    float is_seen = 0.0f;
    for (std::int64_t before = threadIdx.x; before < token; before += blockDim.x)
      if (ids[before] == id) is_seen = 1.0f;
    is_seen = over_block<MaxOf>(is_seen, room);
    if (is_seen > 0.0f || !(id >= 0.0f && id < static_cast<float>(vocabulary))) continue;
    for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      float sum = 0.0f;
      for (std::int64_t at = token; at < tokens; ++at)
        if (ids[at] == id) sum += dy[at * width + c];
      weight_grad[static_cast<std::int64_t>(id) * width + c] = sum;
    }
  }
}

__global__ void add_to_rows_kernel(const float* x, const float* weight, float* y, std::int64_t elements,
                                   std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) y[i] = x[i] + weight[i % elements];
}

/// A thread per pair of features; the features behind the last head are copied, one thread each.
__global__ void rotate_kernel(const float* from, float* to, RotaryShape s, float sign, std::int64_t count) {
  const std::int64_t half = s.head_dim / 2, turned = s.heads * half, per_position = turned + s.width - 2 * turned;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t at = i / per_position, k = i % per_position;
    if (k >= turned) {
      const std::int64_t feature = at * s.width + k + turned;
      to[feature] = from[feature];
      continue;
    }
    const float position = static_cast<float>(s.first_position + at % s.length);
    const float angle = position * powf(s.base, -static_cast<float>(k % half) / static_cast<float>(half));
    const std::int64_t first = at * s.width + k / half * s.head_dim + k % half;
    const float a = from[first], b = from[first + half], cosine = cosf(angle), sine = sign * sinf(angle);
    to[first] = a * cosine - b * sine;
    to[first + half] = a * sine + b * cosine;
  }
}

__global__ void swiglu_kernel(const float* x, float* y, std::int64_t k, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t at = i / k * 2 * k + i % k;
    y[i] = x[at] / (1.0f + expf(-x[at])) * x[at + k];
  }
}

__global__ void swiglu_gradient_kernel(const float* x, const float* dy, float* dx, std::int64_t k, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t at = i / k * 2 * k + i % k;
    const float gate = x[at], s = 1.0f / (1.0f + expf(-gate));
    dx[at] = dy[i] * x[at + k] * s * (1.0f + gate * (1.0f - s));
    dx[at + k] = dy[i] * gate * s;
  }
}

}  // namespace

cudaError_t embed(const float* ids, const float* weight, float* y, float* bad_id, std::int64_t vocabulary,
                  std::int64_t tokens, std::int64_t width, cudaStream_t stream) {
  const std::int64_t count = tokens * width;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(embed_kernel, grid_of(count), block_threads, stream, ids, weight, y, bad_id, vocabulary, width, count);
  return cudaGetLastError();
}

cudaError_t embed_gradient(const float* ids, const float* dy, float* weight_grad, std::int64_t vocabulary,
                           std::int64_t tokens, std::int64_t width, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(vocabulary * width) * sizeof(float);
  if (const cudaError_t status = cudaMemsetAsync(weight_grad, 0, bytes, stream); status != cudaSuccess || tokens == 0)
    return status;
  GPU_LAUNCH(embed_gradient_kernel, grid_of_rows(tokens), block_threads, stream, ids, dy, weight_grad, vocabulary,
             tokens, width);
  return cudaGetLastError();
}

cudaError_t add_to_rows(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t elements,
                        cudaStream_t stream) {
  const std::int64_t count = rows * elements;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(add_to_rows_kernel, grid_of(count), block_threads, stream, x, weight, y, elements, count);
  return cudaGetLastError();
}

cudaError_t rotate(const float* from, float* to, RotaryShape shape, float sign, cudaStream_t stream) {
  const std::int64_t count = shape.positions * (shape.width - shape.heads * (shape.head_dim / 2));
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(rotate_kernel, grid_of(count), block_threads, stream, from, to, shape, sign, count);
  return cudaGetLastError();
}

cudaError_t swiglu(const float* x, float* y, std::int64_t k, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(swiglu_kernel, grid_of(count), block_threads, stream, x, y, k, count);
  return cudaGetLastError();
}

cudaError_t swiglu_gradient(const float* x, const float* dy, float* dx, std::int64_t k, std::int64_t count,
                            cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(swiglu_gradient_kernel, grid_of(count), block_threads, stream, x, dy, dx, k, count);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
