// Root-mean-square norm, one position at a time. Each thread sums the gradient of gamma over its positions; the
// threads' sums are added in order.
#include "device/cpu/adapter.hpp"
#include "device/cpu/channel_loops.hpp"

#include <cmath>

namespace muster::device::cpu {
namespace {

class RmsNorm : public CpuOp {
 public:
  RmsNorm(const OpRequest& request, const RmsNormSpec& spec)
      : CpuOp(request), spec_(spec), k_(params_[0].shape[0]), positions_(request.inputs[0].shape.elements() / k_) {
    MUSTER_CHECK(request.inputs[0].is_plain(), "rms_norm works on plain tensors");
    Pieces in_saved, in_scratch;
    in_saved.add(static_cast<std::size_t>(positions_) * sizeof(float));
    in_scratch.add(static_cast<std::size_t>(threads_ * k_) * sizeof(float));
    traits_.saved_bytes = request.is_training ? in_saved.bytes() : 0;
    traits_.scratch_bytes = request.is_training ? in_scratch.bytes() : 0;
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    const float* gamma = buffers_.params[0];
    parallel_items(threads_, positions_, positions_ * k_, [&](std::int64_t at) {
      const float* row = x() + at * k_;
      float* out = y() + at * k_;
      const float r = inverse(row);
      if (request_.is_training) kept()[at] = r;
#pragma omp simd
      for (std::int64_t c = 0; c < k_; ++c) out[c] = row[c] * r * gamma[c];
    });
  }

  void backward(int, const RunContext&) override {
    auto* partial = reinterpret_cast<float*>(scratch());
    std::fill_n(partial, threads_ * k_, 0.0f);
#pragma omp parallel for num_threads(threads_) schedule(static, 1) if (threads_ > 1)
    for (int t = 0; t < threads_; ++t) {
      const Range part = rows_of_thread({0, positions_}, threads_, t);
      for (std::int64_t at = part.begin; at < part.end; ++at) backward_row(at, partial + t * k_);
    }
    float* grad = buffers_.param_grads[0];
    std::copy_n(partial, k_, grad);
    for (int t = 1; t < threads_; ++t)
      for (std::int64_t c = 0; c < k_; ++c) grad[c] += partial[t * k_ + c];
  }

 private:
  float* kept() const { return reinterpret_cast<float*>(saved()); }

  float inverse(const float* row) const {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < k_; ++c) sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
    return static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(k_) + static_cast<double>(spec_.epsilon)));
  }

  void backward_row(std::int64_t at, float* gamma_grad) const {
    const float *row = x() + at * k_, *grad = dy() + at * k_, *gamma = buffers_.params[0];
    const float r = kept()[at];
    float product = 0;
#pragma omp simd reduction(+ : product)
    for (std::int64_t c = 0; c < k_; ++c) {
      const float xhat = row[c] * r;
      gamma_grad[c] += grad[c] * xhat;
      product += grad[c] * gamma[c] * xhat;
    }
    if (!wants_grad()) return;
    const float mean = product / static_cast<float>(k_);
    float* to = dx() + at * k_;
#pragma omp simd
    for (std::int64_t c = 0; c < k_; ++c) to[c] = r * (grad[c] * gamma[c] - row[c] * r * mean);
  }

  RmsNormSpec spec_;
  std::int64_t k_, positions_;
};

}  // namespace

std::unique_ptr<Op> make_rms_norm(const OpRequest& request, const RmsNormSpec& spec) {
  return std::make_unique<RmsNorm>(request, spec);
}

}  // namespace muster::device::cpu
