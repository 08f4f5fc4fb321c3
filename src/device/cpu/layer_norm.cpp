// Layer norm over plain samples or positions: one row at a time, sums in double lanes. Each thread sums the
// parameter gradients of its rows; the threads' sums are added in order.
#include "device/cpu/adapter.hpp"
#include "device/cpu/channel_loops.hpp"

#include <cmath>

namespace muster::device::cpu {
namespace {

class LayerNorm : public CpuOp {
 public:
  LayerNorm(const OpRequest& request, const LayerNormSpec& spec)
      : CpuOp(request), spec_(spec), k_(samples_[0].elements()) {
    if (spec.is_per_position) {
      k_ = request.inputs[0].shape[request.inputs[0].shape.rank() - 1];
      rows_ = request.inputs[0].shape.elements() / k_;
    }
    adapter_ = LayoutAdapter(request.inputs[0], {request.inputs[0].shape, DType::f32, nullptr});
    Pieces in_saved, in_scratch;
    value_at_ = (request.is_training ? in_saved : in_scratch).add(adapter_.value_bytes());
    grad_at_ = in_scratch.add(adapter_.grad_bytes());
    scratchpad_at_ = in_scratch.add(adapter_.scratchpad_bytes());
    if (request.is_training) {
      moments_at_ = in_saved.add(static_cast<std::size_t>(rows_) * sizeof(Moments));
      partial_at_ = in_scratch.add(static_cast<std::size_t>(threads_ * 2 * k_) * sizeof(float));
    } else {
      moments_at_ = in_scratch.add(static_cast<std::size_t>(rows_) * sizeof(Moments));
    }
    traits_.saved_bytes = in_saved.bytes();
    traits_.scratch_bytes = in_scratch.bytes();
    traits_.backward_reads_input[0] = !adapter_.is_needed();
  }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    std::byte* kept = request_.is_training ? saved() : scratch();
    x_ = x();
    if (adapter_.is_needed()) {
      x_ = reinterpret_cast<float*>(kept + value_at_);
      adapter_.bind_value(x(), const_cast<float*>(x_), scratch(scratchpad_at_));
    }
    moments_ = reinterpret_cast<Moments*>(kept + moments_at_);
    dx_ = wants_grad() ? dx() : nullptr;
    if (dx_ && adapter_.is_needed()) {
      dx_ = reinterpret_cast<float*>(scratch(grad_at_));
      adapter_.bind_grad(dx_, dx(), scratch(scratchpad_at_));
    }
  }

  void forward(int, const RunContext&) override {
    adapter_.run_value();
    const float *gamma = buffers_.params[0], *beta = buffers_.params[1];
    parallel_items(threads_, rows_, rows_ * k_, [&](std::int64_t n) {
      const float* row = x_ + n * k_;
      float* out = y() + n * k_;
      const Moments m = moments_[n] = moments_of(row);
#pragma omp simd
      for (std::int64_t i = 0; i < k_; ++i) out[i] = gamma[i] * ((row[i] - m.mean) * m.inverse) + beta[i];
    });
  }

  void backward(int, const RunContext&) override {
    const float* gamma = buffers_.params[0];
    auto* partial = reinterpret_cast<float*>(scratch(partial_at_));
    std::fill(partial, partial + threads_ * 2 * k_, 0.0f);
#pragma omp parallel for num_threads(threads_) schedule(static, 1) if (threads_ > 1)
    for (int t = 0; t < threads_; ++t) {
      float *gamma_grad = partial + t * 2 * k_, *beta_grad = gamma_grad + k_;
      const Range part = rows_of_thread({0, rows_}, threads_, t);
      for (std::int64_t n = part.begin; n < part.end; ++n) backward_row(n, gamma, gamma_grad, beta_grad);
    }
    for (int which = 0; which < 2; ++which) {
      float* to = buffers_.param_grads[static_cast<std::size_t>(which)];
      std::copy_n(partial + which * k_, k_, to);
      for (int t = 1; t < threads_; ++t)
        for (std::int64_t i = 0; i < k_; ++i) to[i] += partial[(2 * t + which) * k_ + i];
    }
    if (dx_) adapter_.run_grad();
  }

 private:
  struct Moments {
    float mean, inverse;
  };

  Moments moments_of(const float* row) const {
    double mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < k_; ++i) mean += static_cast<double>(row[i]);
    mean /= static_cast<double>(k_);
#pragma omp simd reduction(+ : variance)
    for (std::int64_t i = 0; i < k_; ++i) {
      const double d = static_cast<double>(row[i]) - mean;
      variance += d * d;
    }
    variance /= static_cast<double>(k_);
    return {static_cast<float>(mean),
            static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(spec_.epsilon)))};
  }

  void backward_row(std::int64_t n, const float* gamma, float* gamma_grad, float* beta_grad) const {
    const float *row = x_ + n * k_, *grad = dy() + n * k_;
    const Moments m = moments_[n];
    float sum = 0, sum_with_x = 0;
#pragma omp simd reduction(+ : sum, sum_with_x)
    for (std::int64_t i = 0; i < k_; ++i) {
      const float xhat = (row[i] - m.mean) * m.inverse, g = grad[i] * gamma[i];
      gamma_grad[i] += grad[i] * xhat;
      beta_grad[i] += grad[i];
      sum += g;
      sum_with_x += g * xhat;
    }
    if (!dx_) return;
    const float mean_grad = sum / static_cast<float>(k_), mean_with_x = sum_with_x / static_cast<float>(k_);
    float* to = dx_ + n * k_;
#pragma omp simd
    for (std::int64_t i = 0; i < k_; ++i) {
      const float xhat = (row[i] - m.mean) * m.inverse;
      to[i] = m.inverse * (grad[i] * gamma[i] - mean_grad - xhat * mean_with_x);
    }
  }

  LayerNormSpec spec_;
  std::int64_t k_;
  LayoutAdapter adapter_;
  std::size_t value_at_ = 0, grad_at_ = 0, scratchpad_at_ = 0, moments_at_ = 0, partial_at_ = 0;
  const float* x_ = nullptr;
  float* dx_ = nullptr;
  Moments* moments_ = nullptr;
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(const OpRequest& request, const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(request, spec);
}

}  // namespace muster::device::cpu
