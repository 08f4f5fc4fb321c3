// Normalisation by the root of the mean square of the last axis (Zhang and Sennrich 2019); the truth for other
// backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class RmsNorm : public RefOp {
 public:
  RmsNorm(const OpRequest& request, const RmsNormSpec& spec) : RefOp(request), spec_(spec), k_(last_extent()) {
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < input_elements(); ++i)
      y()[i] = static_cast<float>(static_cast<double>(x()[i]) * inverse(i / k_) *
                                  static_cast<double>(buffers_.params[0][i % k_]));
  }

  void backward(int, const RunContext&) override {
    std::vector<double> gamma_grad(static_cast<std::size_t>(k_), 0.0);
    for (std::int64_t at = 0; at < positions(); ++at) {
      const double r = inverse(at);
      double product = 0;
      for (std::int64_t c = 0; c < k_; ++c) {
        const double g = static_cast<double>(dy()[at * k_ + c]), xhat = static_cast<double>(x()[at * k_ + c]) * r;
        gamma_grad[static_cast<std::size_t>(c)] += g * xhat;
        product += g * static_cast<double>(buffers_.params[0][c]) * xhat / static_cast<double>(k_);
      }
      if (!wants_grad()) continue;
      for (std::int64_t c = 0; c < k_; ++c) {
        const double g = static_cast<double>(dy()[at * k_ + c]) * static_cast<double>(buffers_.params[0][c]);
        dx()[at * k_ + c] = static_cast<float>(r * (g - static_cast<double>(x()[at * k_ + c]) * r * product));
      }
    }
    std::copy(gamma_grad.begin(), gamma_grad.end(), buffers_.param_grads[0]);
  }

 private:
  double inverse(std::int64_t at) const {
    double sum = 0;
    for (std::int64_t c = 0; c < k_; ++c) {
      const double v = static_cast<double>(x()[at * k_ + c]);
      sum += v * v / static_cast<double>(k_);
    }
    return 1.0 / std::sqrt(sum + static_cast<double>(spec_.epsilon));
  }
  RmsNormSpec spec_;
  std::int64_t k_;
};

}  // namespace

std::unique_ptr<Op> make_rms_norm(const OpRequest& request, const RmsNormSpec& spec) {
  return std::make_unique<RmsNorm>(request, spec);
}

}  // namespace muster::device::ref
