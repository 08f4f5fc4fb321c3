// How threads are laid over work: a grid-stride loop over elements, or one block per row with a sum over its threads
// along a fixed tree (so that the order of a sum depends on nothing but the counts).
#pragma once

#include "device/cuda/language.cuh"

#include <cstdint>

namespace muster::device::cuda {

inline constexpr int block_threads = 256;

inline dim3 grid_of(std::int64_t count) {
  constexpr std::int64_t most = 65535;
  const std::int64_t blocks = (count + block_threads - 1) / block_threads;
  return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}
/// One block per row; rows beyond the largest grid are taken in turns.
inline dim3 grid_of_rows(std::int64_t rows) {
  constexpr std::int64_t most = 65535;
  return dim3(static_cast<unsigned>(rows < most ? rows : most));
}

__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t all_threads() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

struct SumOf {
  template <class Value>
  __device__ static Value join(Value a, Value b) {
    return a + b;
  }
};
struct MaxOf {
  // NaN wins, so that divergence shows.
  __device__ static float join(float a, float b) { return a > b || a != a ? a : b; }
};

/// Joins one value per thread of the block; every thread gets the result. `room`: block_threads values, shared.
template <class Join, class Value, class Room>
__device__ Value over_block(Value value, Room& room) {
  const int thread = static_cast<int>(threadIdx.x);
  room[thread] = value;
  __syncthreads();
  for (int half = block_threads / 2; half > 0; half /= 2) {
    if (thread < half) {
      const Value mine = room[thread], other = room[thread + half];
      room[thread] = Join::join(mine, other);
    }
    __syncthreads();
  }
  const Value result = room[0];
  __syncthreads();  // the room may be written again
  return result;
}

}  // namespace muster::device::cuda
