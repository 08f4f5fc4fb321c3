// Matrices by rows and columns.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

__global__ void bias_kernel(float* y, const float* bias, bool has_relu, std::int64_t columns, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float sum = y[i] + bias[i % columns];
    y[i] = has_relu && sum <= 0.0f ? 0.0f : sum;
  }
}

/// A thread per column: neighbours read neighbouring addresses, and a column is added from the first row to the last.
__global__ void column_sums_kernel(const float* x, float* sums, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = first_element(); c < columns; c += all_threads()) {
    float sum = 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) sum += x[r * columns + c];
    sums[c] = sum;
  }
}

__global__ void copy_columns_kernel(const float* from, Columns of_from, float* to, Columns of_to, std::int64_t width,
                                    std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t row = i / width, column = i % width;
    to[row * of_to.stride + of_to.offset + column] = from[row * of_from.stride + of_from.offset + column];
  }
}

}  // namespace

cudaError_t copy_columns(const float* from, Columns of_from, float* to, Columns of_to, std::int64_t rows,
                         std::int64_t width, cudaStream_t stream) {
  const std::int64_t count = rows * width;
  if (count == 0) return cudaSuccess;
  GPU_LAUNCH(copy_columns_kernel, grid_of(count), block_threads, stream, from, of_from, to, of_to, width, count);
  return cudaGetLastError();
}

cudaError_t add_bias(float* y, const float* bias, bool has_relu, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  GPU_LAUNCH(bias_kernel, grid_of(rows * columns), block_threads, stream, y, bias, has_relu, columns, rows * columns);
  return cudaGetLastError();
}

cudaError_t column_sums(const float* x, float* sums, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (columns == 0) return cudaSuccess;
  GPU_LAUNCH(column_sums_kernel, grid_of(columns), block_threads, stream, x, sums, rows, columns);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
