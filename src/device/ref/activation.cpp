// Element-wise activations and their derivatives, the truth for other backends.
#include "device/ref/ref.hpp"

#include <numbers>

namespace muster::device::ref {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Value and derivative at x.
std::pair<double, double> evaluate(const ActivationSpec& spec, double x) {
  const double slope = static_cast<double>(spec.slope);
  switch (spec.kind) {
    case Activation::none:
      return {x, 1.0};
    case Activation::relu:
      return x <= 0 ? std::pair{0.0, 0.0} : std::pair{x, 1.0};  // NaN stays NaN: divergence must show
    case Activation::leaky_relu:
      return x > 0 ? std::pair{x, 1.0} : std::pair{slope * x, slope};
    case Activation::silu: {
      const double s = sigmoid(x);
      return {x * s, s * (1.0 + x * (1.0 - s))};
    }
    case Activation::tanh: {
      const double t = std::tanh(x);
      return {t, 1.0 - t * t};
    }
    case Activation::sigmoid: {
      const double s = sigmoid(x);
      return {s, s * (1.0 - s)};
    }
    case Activation::gelu:
      break;
  }
  if (spec.is_gelu_tanh) {  // Hendrycks and Gimpel 2016, the tanh approximation
    const double k = std::sqrt(2.0 / std::numbers::pi), inner = k * (x + 0.044715 * x * x * x), t = std::tanh(inner);
    return {0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * k * (1.0 + 3 * 0.044715 * x * x)};
  }
  const double cdf = 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2));
  return {x * cdf, cdf + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi)};
}

class ActivationOp : public RefOp {
 public:
  ActivationOp(const OpRequest& request, const ActivationSpec& spec) : RefOp(request), spec_(spec) {
    traits_.backward_reads_input[0] = true;
    traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < output_elements(); ++i)
      y()[i] = static_cast<float>(evaluate(spec_, static_cast<double>(x()[i])).first);
  }
  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    for (std::int64_t i = 0; i < output_elements(); ++i)
      dx()[i] = static_cast<float>(static_cast<double>(dy()[i]) * evaluate(spec_, static_cast<double>(x()[i])).second);
  }

 private:
  ActivationSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_activation(const OpRequest& request, const ActivationSpec& spec) {
  return std::make_unique<ActivationOp>(request, spec);
}

}  // namespace muster::device::ref
