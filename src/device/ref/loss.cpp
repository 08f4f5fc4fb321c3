// Losses: one value per row, and the gradient divided by the global number of rows; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Loss : public LossOp {
 public:
  Loss(const LossSpec& spec, const TensorDesc& predictions) : spec_(spec), rows_(predictions.shape[0]) {
    k_ = rows_ == 0 ? 0 : predictions.shape.elements() / rows_;
    if (spec.kind == LossSpec::Kind::softmax_cross_entropy && k_ > 0) {
      positions_ = k_ / predictions.shape[predictions.shape.rank() - 1];
      k_ /= positions_;
    }
  }

  void run(const void* predictions, const void* targets, float* row_loss, void* grad,
           const RunContext& context) override {
    const auto* z = static_cast<const float*>(predictions);
    auto* dz = static_cast<float*>(grad);
    const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(context.global_rows, 1));
    for (std::int64_t n = 0; n < rows_; ++n) {
      if (spec_.kind == LossSpec::Kind::softmax_cross_entropy) {
        double sum = 0;
        for (std::int64_t at = n * positions_; at < (n + 1) * positions_; ++at)
          sum += softmax_row(z + at * k_, static_cast<const std::int32_t*>(targets)[at], dz ? dz + at * k_ : nullptr,
                             scale / static_cast<double>(positions_));
        row_loss[n] = static_cast<float>(sum / static_cast<double>(positions_));
      } else {
        row_loss[n] =
            regression_row(z + n * k_, static_cast<const float*>(targets) + n * k_, dz ? dz + n * k_ : nullptr, scale);
      }
    }
  }

 private:
  double softmax_row(const float* z, std::int32_t label, float* dz, double scale) const {
    const double largest = static_cast<double>(*std::max_element(z, z + k_));
    double sum = 0;
    for (std::int64_t c = 0; c < k_; ++c) sum += std::exp(static_cast<double>(z[c]) - largest);
    const double log_sum = std::log(sum) + largest;
    const double smoothing = static_cast<double>(spec_.label_smoothing), even = smoothing / static_cast<double>(k_);
    double loss = 0;
    for (std::int64_t c = 0; c < k_; ++c) {
      const double target = (c == label ? 1.0 - smoothing : 0.0) + even;
      const double log_probability = static_cast<double>(z[c]) - log_sum;
      if (target > 0) loss -= target * log_probability;
      if (dz) dz[c] = static_cast<float>((std::exp(log_probability) - target) * scale);
    }
    return loss;
  }

  float regression_row(const float* z, const float* target, float* dz, double scale) const {
    const double k = static_cast<double>(k_);
    double loss = 0;
    for (std::int64_t i = 0; i < k_; ++i) {
      const double v = static_cast<double>(z[i]), t = static_cast<double>(target[i]);
      if (spec_.kind == LossSpec::Kind::mean_squared_error) {
        loss += (v - t) * (v - t) / k;
        if (dz) dz[i] = static_cast<float>(2.0 * (v - t) / k * scale);
      } else {  // -t log s(v) - (1-t) log(1 - s(v)), in a form that does not overflow
        loss += (std::max(v, 0.0) - v * t + std::log1p(std::exp(-std::abs(v)))) / k;
        if (dz) dz[i] = static_cast<float>((1.0 / (1.0 + std::exp(-v)) - t) / k * scale);
      }
    }
    return static_cast<float>(loss);
  }

  LossSpec spec_;
  std::int64_t rows_ = 0, positions_ = 1, k_ = 0;  // k_: classes, or predictions of a sample
};

}  // namespace

std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions) {
  return std::make_unique<Loss>(spec, predictions);
}

}  // namespace muster::device::ref
