// Scaled dot-product attention with all weights in memory: a block per query for the softmax, a thread per feature for
// the rest. Nothing is added atomically, so the bits are the same in every run. Backward of query i, with
// a = dropout(p), g = dy:  dp = mask (g v);  ds = p (dp - sum(p dp)) / sqrt(head_dim);  dq = ds k;  dk = ds^T q;  dv = a^T g
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"
#include "device/cuda/random.cuh"

namespace muster::device::cuda {
namespace {

__device__ std::int64_t key_column(const AttentionShape& s, std::int64_t head) {
  return (s.heads + head / (s.heads / s.kv_heads)) * s.head_dim;
}
__device__ std::int64_t value_column(const AttentionShape& s, std::int64_t head) {
  return key_column(s, head) + s.kv_heads * s.head_dim;
}
__device__ float scale_of(const AttentionShape& s) { return 1.0f / sqrtf(static_cast<float>(s.head_dim)); }
/// Positions that query i sees.
__device__ std::int64_t seen_by(const AttentionShape& s, std::int64_t i) {
  return s.is_causal ? s.first_position + i + 1 : s.length;
}
__device__ float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0.0f;
  for (std::int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
  return sum;
}
/// What dropout multiplies the weight of key j by; query: (n * heads + head) * length + i.
__device__ float factor_of(const AttentionShape& s, const AttentionDropout& dropout, std::int64_t query,
                           std::int64_t j) {
  if (dropout.rate == 0.0f) return 1.0f;
  const std::int64_t of_sample = query % (s.heads * s.length), n = query / (s.heads * s.length);
  const std::int64_t element = of_sample * ((s.length + 3) / 4 * 4) + j;
  const std::uint32_t row = dropout.first_row + static_cast<std::uint32_t>(n);
  return uniform_at(dropout.key, row, element) >= dropout.rate ? 1.0f / (1.0f - dropout.rate) : 0.0f;
}

__global__ void weights_kernel(const float* x, const float* rows, float* weights, float* kept, AttentionShape s,
                               AttentionDropout dropout) {
  GPU_SHARED(float, room, block_threads);
  for (std::int64_t query = blockIdx.x; query < s.n * s.heads * s.length; query += gridDim.x) {
    const std::int64_t i = query % s.length, head = query / s.length % s.heads, n = query / (s.length * s.heads);
    const std::int64_t seen = seen_by(s, i);
    const float* q = x + (n * s.length + i) * s.width + head * s.head_dim;
    const float* keys = rows + n * s.keys * s.key_width + key_column(s, head);
    float* p = weights + query * s.keys;
    float largest = -INFINITY;
    for (std::int64_t j = threadIdx.x; j < seen; j += blockDim.x) {
      p[j] = dot(q, keys + j * s.key_width, s.head_dim) * scale_of(s);
      largest = MaxOf::join(p[j], largest);
    }
    largest = over_block<MaxOf>(largest, room);
    float sum = 0.0f;
    for (std::int64_t j = threadIdx.x; j < seen; j += blockDim.x) sum += p[j] = expf(p[j] - largest);
    sum = over_block<SumOf>(sum, room);
    for (std::int64_t j = threadIdx.x; j < s.keys; j += blockDim.x) {
      const float weight = j < seen ? p[j] / sum : 0.0f;
      p[j] = weight;
      if (kept != weights) kept[query * s.keys + j] = j < seen ? weight * factor_of(s, dropout, query, j) : 0.0f;
    }
  }
}

__global__ void output_kernel(const float* rows, const float* kept, float* y, AttentionShape s, std::int64_t count) {
  for (std::int64_t e = first_element(); e < count; e += all_threads()) {
    const std::int64_t d = e % s.head_dim, head = e / s.head_dim % s.heads, i = e / (s.head_dim * s.heads) % s.length;
    const std::int64_t n = e / (s.head_dim * s.heads * s.length), seen = seen_by(s, i);
    const float* values = rows + n * s.keys * s.key_width + value_column(s, head) + d;
    const float* a = kept + ((n * s.heads + head) * s.length + i) * s.keys;
    float sum = 0.0f;
    for (std::int64_t j = 0; j < seen; ++j) sum += a[j] * values[j * s.key_width];
    y[e] = sum;
  }
}

__global__ void scores_gradient_kernel(const float* x, const float* weights, const float* dy, float* grads,
                                       AttentionShape s, AttentionDropout dropout) {
  GPU_SHARED(float, room, block_threads);
  for (std::int64_t query = blockIdx.x; query < s.n * s.heads * s.length; query += gridDim.x) {
    const std::int64_t i = query % s.length, head = query / s.length % s.heads, n = query / (s.length * s.heads);
    const std::int64_t seen = seen_by(s, i);
    const float* g = dy + ((n * s.length + i) * s.heads + head) * s.head_dim;
    const float* values = x + n * s.length * s.width + value_column(s, head);
    const float* p = weights + query * s.keys;
    float* ds = grads + query * s.keys;
    float sum = 0.0f;
    for (std::int64_t j = threadIdx.x; j < seen; j += blockDim.x) {
      ds[j] = factor_of(s, dropout, query, j) * dot(g, values + j * s.width, s.head_dim);
      sum += p[j] * ds[j];
    }
    sum = over_block<SumOf>(sum, room);
    for (std::int64_t j = threadIdx.x; j < s.keys; j += blockDim.x)
      ds[j] = j < seen ? p[j] * (ds[j] - sum) * scale_of(s) : 0.0f;
  }
}

__global__ void queries_gradient_kernel(const float* x, const float* grads, float* dx, AttentionShape s,
                                        std::int64_t count) {
  for (std::int64_t e = first_element(); e < count; e += all_threads()) {
    const std::int64_t d = e % s.head_dim, head = e / s.head_dim % s.heads, at = e / (s.head_dim * s.heads);
    const std::int64_t n = at / s.length, i = at % s.length;
    const float* keys = x + n * s.length * s.width + key_column(s, head) + d;
    const float* ds = grads + ((n * s.heads + head) * s.length + i) * s.keys;
    float sum = 0.0f;
    for (std::int64_t j = 0; j < s.keys; ++j) sum += ds[j] * keys[j * s.width];
    dx[at * s.width + head * s.head_dim + d] = sum;
  }
}

/// Keys and values: a thread per feature of one of their heads adds up all queries of the heads that read it.
__global__ void keys_gradient_kernel(const float* x, const float* kept, const float* dy, const float* grads, float* dx,
                                     AttentionShape s, std::int64_t count) {
  const std::int64_t readers = s.heads / s.kv_heads;
  for (std::int64_t e = first_element(); e < count; e += all_threads()) {
    const std::int64_t d = e % s.head_dim, kv_head = e / s.head_dim % s.kv_heads, at = e / (s.head_dim * s.kv_heads);
    const std::int64_t n = at / s.length, j = at % s.length;
    float of_key = 0.0f, of_value = 0.0f;
    for (std::int64_t head = kv_head * readers; head < (kv_head + 1) * readers; ++head)
      for (std::int64_t i = 0; i < s.length; ++i) {
        const std::int64_t weight = ((n * s.heads + head) * s.length + i) * s.keys + j;
        const std::int64_t position = n * s.length + i;
        of_key += grads[weight] * x[position * s.width + head * s.head_dim + d];
        of_value += kept[weight] * dy[(position * s.heads + head) * s.head_dim + d];
      }
    const std::int64_t column = kv_head * s.head_dim + d;
    dx[at * s.width + s.heads * s.head_dim + column] = of_key;
    dx[at * s.width + (s.heads + s.kv_heads) * s.head_dim + column] = of_value;
  }
}

}  // namespace

cudaError_t attention_weights(const float* x, const float* rows, float* weights, float* kept, AttentionShape shape,
                              AttentionDropout dropout, cudaStream_t stream) {
  const std::int64_t queries = shape.n * shape.heads * shape.length;
  if (queries == 0) return cudaSuccess;
  GPU_LAUNCH(weights_kernel, grid_of_rows(queries), block_threads, stream, x, rows, weights, kept, shape, dropout);
  return cudaGetLastError();
}

cudaError_t attention_output(const float* rows, const float* kept, float* y, AttentionShape shape,
                             cudaStream_t stream) {
  const std::int64_t count = shape.n * shape.length * shape.heads * shape.head_dim;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(output_kernel, grid_of(count), block_threads, stream, rows, kept, y, shape, count);
  return cudaGetLastError();
}

cudaError_t attention_gradient(const float* x, const float* weights, const float* kept, const float* dy, float* grads,
                               float* dx, AttentionShape shape, AttentionDropout dropout, cudaStream_t stream) {
  const std::int64_t positions = shape.n * shape.length, queries = positions * shape.heads;
  if (queries == 0) return cudaSuccess;
  GPU_LAUNCH(scores_gradient_kernel, grid_of_rows(queries), block_threads, stream, x, weights, dy, grads, shape,
             dropout);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  const std::int64_t of_queries = queries * shape.head_dim, of_keys = positions * shape.kv_heads * shape.head_dim;
  GPU_LAUNCH(queries_gradient_kernel, grid_of(of_queries), block_threads, stream, x, grads, dx, shape, of_queries);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  GPU_LAUNCH(keys_gradient_kernel, grid_of(of_keys), block_threads, stream, x, kept, dy, grads, dx, shape, of_keys);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
