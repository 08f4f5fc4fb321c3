// Batch normalisation, a block per channel for the sums (in double, along a fixed tree), a thread per element for the
// rest. Formulas: Ioffe and Szegedy 2015; see BatchNormSpec.
#include "device/cuda/grid.cuh"
#include "device/cuda/kernels.hpp"

namespace muster::device::cuda {
namespace {

/// Index of element i (of rows * image) of channel c.
__device__ std::int64_t element_of(const Images& s, std::int64_t c, std::int64_t i) {
  return (i / s.image * s.channels + c) * s.image + i % s.image;
}

__device__ float behind_relu(const float* y, const float* dy, bool has_relu, std::int64_t i) {
  return has_relu && !(y[i] > 0.0f) ? 0.0f : dy[i];
}

__global__ void sums_kernel(const float* x, double* sums, Images s) {
  GPU_SHARED(double, room, block_threads);
  for (std::int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    double sum = 0, squares = 0;
    for (std::int64_t i = threadIdx.x; i < s.rows * s.image; i += blockDim.x) {
      const double value = static_cast<double>(x[element_of(s, c, i)]);
      sum += value;
      squares += value * value;
    }
    sum = over_block<SumOf>(sum, room);
    squares = over_block<SumOf>(squares, room);
    if (threadIdx.x == 0) {
      sums[c] = sum;
      sums[s.channels + c] = squares;
    }
  }
}

__global__ void moments_kernel(const double* sums, double count, float epsilon, float* moments, double* deferred,
                               double share, std::int64_t channels) {
  for (std::int64_t c = first_element(); c < channels; c += all_threads()) {
    const double mean = sums[c] / count;
    const double found = sums[channels + c] / count - mean * mean;
    const double variance = found > 0 || found != found ? found : 0.0;
    moments[c] = static_cast<float>(mean);
    moments[channels + c] = static_cast<float>(1.0 / sqrt(variance + static_cast<double>(epsilon)));
    if (deferred == nullptr) continue;
    deferred[c] += share * mean;
    deferred[channels + c] += share * (count > 1 ? variance * count / (count - 1) : variance);
  }
}

__global__ void running_moments_kernel(const float* mean, const float* variance, float epsilon, float* moments,
                                       std::int64_t channels) {
  for (std::int64_t c = first_element(); c < channels; c += all_threads()) {
    moments[c] = mean[c];
    moments[channels + c] = 1.0f / sqrtf(variance[c] + epsilon);
  }
}

__global__ void normalise_kernel(const float* x, const float* residual, const float* moments, const float* gamma,
                                 const float* beta, float* y, bool has_relu, Images s, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const std::int64_t c = i / s.image % s.channels;
    float value = gamma[c] * ((x[i] - moments[c]) * moments[s.channels + c]) + beta[c];
    if (residual != nullptr) value += residual[i];
    y[i] = has_relu && value <= 0.0f ? 0.0f : value;
  }
}

__global__ void gradient_sums_kernel(const float* x, const float* y, const float* dy, const float* moments,
                                     double* sums, bool has_relu, Images s) {
  GPU_SHARED(double, room, block_threads);
  for (std::int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    const float mean = moments[c], inverse = moments[s.channels + c];
    double sum = 0, with_x = 0;
    for (std::int64_t i = threadIdx.x; i < s.rows * s.image; i += blockDim.x) {
      const std::int64_t at = element_of(s, c, i);
      const double g = static_cast<double>(behind_relu(y, dy, has_relu, at));
      sum += g;
      with_x += g * static_cast<double>((x[at] - mean) * inverse);
    }
    sum = over_block<SumOf>(sum, room);
    with_x = over_block<SumOf>(with_x, room);
    if (threadIdx.x == 0) {
      sums[c] = sum;
      sums[s.channels + c] = with_x;
    }
  }
}

__global__ void input_kernel(const float* x, const float* y, const float* dy, const float* moments, const float* gamma,
                             const double* sums, double count, float* dx, float* d_residual, bool has_relu, Images s,
                             std::int64_t all) {
  for (std::int64_t i = first_element(); i < all; i += all_threads()) {
    const std::int64_t c = i / s.image % s.channels;
    const float inverse = moments[s.channels + c], xhat = (x[i] - moments[c]) * inverse;
    const float g = behind_relu(y, dy, has_relu, i);
    const auto mean_g = static_cast<float>(sums[c] / count), mean_gx = static_cast<float>(sums[s.channels + c] / count);
    if (dx != nullptr) dx[i] = gamma[c] * inverse * (g - mean_g - xhat * mean_gx);
    if (d_residual != nullptr) d_residual[i] = g;
  }
}

__global__ void params_kernel(const double* sums, float* gamma_grad, float* beta_grad, bool is_more,
                              std::int64_t channels) {
  for (std::int64_t c = first_element(); c < channels; c += all_threads()) {
    gamma_grad[c] = (is_more ? gamma_grad[c] : 0.0f) + static_cast<float>(sums[channels + c]);
    beta_grad[c] = (is_more ? beta_grad[c] : 0.0f) + static_cast<float>(sums[c]);
  }
}

__global__ void running_kernel(float* mean, float* variance, const double* values, double count, double momentum,
                               std::int64_t channels) {
  for (std::int64_t c = first_element(); c < channels; c += all_threads()) {
    double new_mean = values[c], new_variance = values[channels + c];
    if (count > 0) {
      new_mean /= count;
      const double found = new_variance / count - new_mean * new_mean;
      new_variance = found > 0 || found != found ? found : 0.0;
      if (count > 1) new_variance *= count / (count - 1);
    }
    mean[c] = static_cast<float>((1.0 - momentum) * static_cast<double>(mean[c]) + momentum * new_mean);
    variance[c] = static_cast<float>((1.0 - momentum) * static_cast<double>(variance[c]) + momentum * new_variance);
  }
}

}  // namespace

cudaError_t channel_sums(const float* x, double* sums, Images images, cudaStream_t stream) {
  if (images.channels == 0) return cudaSuccess;
  GPU_LAUNCH(sums_kernel, grid_of_rows(images.channels), block_threads, stream, x, sums, images);
  return cudaGetLastError();
}

cudaError_t channel_moments(const double* sums, double count, float epsilon, float* moments, double* deferred,
                            double share, std::int64_t channels, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  GPU_LAUNCH(moments_kernel, grid_of(channels), block_threads, stream, sums, count, epsilon, moments, deferred, share,
             channels);
  return cudaGetLastError();
}

cudaError_t running_moments(const float* mean, const float* variance, float epsilon, float* moments,
                            std::int64_t channels, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  GPU_LAUNCH(running_moments_kernel, grid_of(channels), block_threads, stream, mean, variance, epsilon, moments,
             channels);
  return cudaGetLastError();
}

cudaError_t channel_normalise(const float* x, const float* residual, const float* moments, const float* gamma,
                              const float* beta, float* y, bool has_relu, Images images, cudaStream_t stream) {
  if (images.count() == 0) return cudaSuccess;
  GPU_LAUNCH(normalise_kernel, grid_of(images.count()), block_threads, stream, x, residual, moments, gamma, beta, y,
             has_relu, images, images.count());
  return cudaGetLastError();
}

cudaError_t channel_gradient_sums(const float* x, const float* y, const float* dy, const float* moments, double* sums,
                                  bool has_relu, Images images, cudaStream_t stream) {
  if (images.channels == 0) return cudaSuccess;
  GPU_LAUNCH(gradient_sums_kernel, grid_of_rows(images.channels), block_threads, stream, x, y, dy, moments, sums,
             has_relu, images);
  return cudaGetLastError();
}

cudaError_t channel_input_gradient(const float* x, const float* y, const float* dy, const float* moments,
                                   const float* gamma, const double* sums, double count, float* dx, float* d_residual,
                                   bool has_relu, Images images, cudaStream_t stream) {
  if (images.count() == 0) return cudaSuccess;
  GPU_LAUNCH(input_kernel, grid_of(images.count()), block_threads, stream, x, y, dy, moments, gamma, sums, count, dx,
             d_residual, has_relu, images, images.count());
  return cudaGetLastError();
}

cudaError_t channel_param_gradient(const double* sums, float* gamma_grad, float* beta_grad, bool is_more,
                                   std::int64_t channels, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  GPU_LAUNCH(params_kernel, grid_of(channels), block_threads, stream, sums, gamma_grad, beta_grad, is_more, channels);
  return cudaGetLastError();
}

cudaError_t update_running(float* mean, float* variance, const double* values, double count, double momentum,
                           std::int64_t channels, cudaStream_t stream) {
  if (channels == 0) return cudaSuccess;
  GPU_LAUNCH(running_kernel, grid_of(channels), block_threads, stream, mean, variance, values, count, momentum,
             channels);
  return cudaGetLastError();
}

}  // namespace muster::device::cuda
