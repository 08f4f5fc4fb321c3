// Normalisation over all elements of a sample, or of a position (Ba et al. 2016); the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class LayerNorm : public RefOp {
 public:
  LayerNorm(const OpRequest& request, const LayerNormSpec& spec) : RefOp(request), spec_(spec) {
    k_ = sample_of(request.inputs[0].shape).elements();
    if (spec_.is_per_position) {
      k_ = last_extent();
      rows_ = positions();
    }
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    for (std::int64_t n = 0; n < rows_; ++n) {
      const auto [mean, inverse] = moments(n);
      for (std::int64_t i = 0; i < k_; ++i) {
        const double xhat = (static_cast<double>(x()[n * k_ + i]) - mean) * inverse;
        y()[n * k_ + i] = static_cast<float>(static_cast<double>(buffers_.params[0][i]) * xhat +
                                             static_cast<double>(buffers_.params[1][i]));
      }
    }
  }

  void backward(int, const RunContext&) override {
    std::vector<double> gamma_grad(static_cast<std::size_t>(k_), 0.0), beta_grad(static_cast<std::size_t>(k_), 0.0);
    for (std::int64_t n = 0; n < rows_; ++n) {
      const auto [mean, inverse] = moments(n);
      double sum = 0, sum_with_x = 0;
      for (std::int64_t i = 0; i < k_; ++i) {
        const double g = static_cast<double>(dy()[n * k_ + i]);
        const double xhat = (static_cast<double>(x()[n * k_ + i]) - mean) * inverse;
        gamma_grad[static_cast<std::size_t>(i)] += g * xhat;
        beta_grad[static_cast<std::size_t>(i)] += g;
        sum += g * static_cast<double>(buffers_.params[0][i]);
        sum_with_x += g * static_cast<double>(buffers_.params[0][i]) * xhat;
      }
      if (!wants_grad()) continue;
      const double count = static_cast<double>(k_);
      for (std::int64_t i = 0; i < k_; ++i) {
        const double g = static_cast<double>(dy()[n * k_ + i]) * static_cast<double>(buffers_.params[0][i]);
        const double xhat = (static_cast<double>(x()[n * k_ + i]) - mean) * inverse;
        dx()[n * k_ + i] = static_cast<float>(inverse * (g - sum / count - xhat * sum_with_x / count));
      }
    }
    std::copy(gamma_grad.begin(), gamma_grad.end(), buffers_.param_grads[0]);
    std::copy(beta_grad.begin(), beta_grad.end(), buffers_.param_grads[1]);
  }

 private:
  std::pair<double, double> moments(std::int64_t n) const {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < k_; ++i) mean += static_cast<double>(x()[n * k_ + i]) / static_cast<double>(k_);
    for (std::int64_t i = 0; i < k_; ++i) {
      const double d = static_cast<double>(x()[n * k_ + i]) - mean;
      variance += d * d / static_cast<double>(k_);
    }
    return {mean, 1.0 / std::sqrt(variance + static_cast<double>(spec_.epsilon))};
  }
  LayerNormSpec spec_;
  std::int64_t k_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(const OpRequest& request, const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(request, spec);
}

}  // namespace muster::device::ref
