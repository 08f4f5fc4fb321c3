// Losses on plain predictions, one row after the other; rows are shared out to the threads.
#include "device/cpu/adapter.hpp"
#include "device/cpu/vector_math.hpp"

#include <cmath>

namespace muster::device::cpu {
namespace {

class Loss : public LossOp {
 public:
  Loss(const LossSpec& spec, const TensorDesc& predictions, int threads)
      : spec_(spec), predictions_(predictions), threads_(threads), rows_(predictions.shape[0]) {
    elements_ = predictions.shape.elements();
    k_ = rows_ == 0 ? 0 : elements_ / rows_;
    if (spec.kind == LossSpec::Kind::softmax_cross_entropy && k_ > 0) {
      positions_ = k_ / predictions.shape[predictions.shape.rank() - 1];
      k_ /= positions_;
    }
    if (positions_ > 1) position_loss_.resize(static_cast<std::size_t>(rows_ * positions_));
    if (predictions.is_plain()) return;
    plain_.resize(static_cast<std::size_t>(elements_));
    plain_grad_.resize(static_cast<std::size_t>(elements_));
  }

  void run(const void* predictions, const void* targets, float* row_loss, void* grad,
           const RunContext& context) override {
    const auto* z = static_cast<const float*>(predictions);
    auto* dz = static_cast<float*>(grad);
    if (!predictions_.is_plain()) {
      copy_to_plain(predictions_, predictions, plain_.data());
      z = plain_.data();
      if (dz) dz = plain_grad_.data();
    }
    const float scale = 1.0f / static_cast<float>(std::max<std::int64_t>(context.global_rows, 1));
    float* losses = positions_ > 1 ? position_loss_.data() : row_loss;
    parallel_items(threads_, rows_ * positions_, elements_, [&](std::int64_t n) {
      float* row_grad = dz ? dz + n * k_ : nullptr;
      if (spec_.kind == LossSpec::Kind::softmax_cross_entropy)
        losses[n] = softmax_row(z + n * k_, static_cast<const std::int32_t*>(targets)[n], row_grad,
                                scale / static_cast<float>(positions_));
      else if (spec_.kind == LossSpec::Kind::binary_cross_entropy)
        row_loss[n] = binary_row(z + n * k_, static_cast<const float*>(targets) + n * k_, row_grad, scale);
      else row_loss[n] = squared_row(z + n * k_, static_cast<const float*>(targets) + n * k_, row_grad, scale);
    });
    for (std::int64_t n = 0; n < rows_ && positions_ > 1; ++n) {
      double sum = 0;
      for (std::int64_t at = n * positions_; at < (n + 1) * positions_; ++at) sum += static_cast<double>(losses[at]);
      row_loss[n] = static_cast<float>(sum / static_cast<double>(positions_));
    }
    if (grad && !predictions_.is_plain()) copy_from_plain(predictions_, plain_grad_.data(), grad);
  }

 private:
  float softmax_row(const float* z, std::int32_t label, float* dz, float scale) const {
    float largest = z[0];
    for (std::int64_t c = 1; c < k_; ++c) largest = std::max(largest, z[c]);
    double sum = 0, sum_of_logits = 0;
#pragma omp simd reduction(+ : sum, sum_of_logits)
    for (std::int64_t c = 0; c < k_; ++c) {
      sum += static_cast<double>(vector_exp(z[c] - largest));
      sum_of_logits += static_cast<double>(z[c] - largest);
    }
    const double log_sum = std::log(sum), smoothing = static_cast<double>(spec_.label_smoothing);
    // -sum t log p with t = (1 - s) onehot + s / k
    const double loss = log_sum - (1.0 - smoothing) * static_cast<double>(z[label] - largest) -
                        (smoothing > 0 ? smoothing * sum_of_logits / static_cast<double>(k_) : 0.0);
    if (dz) {
      const float inverse = static_cast<float>(1.0 / sum), even = spec_.label_smoothing / static_cast<float>(k_);
#pragma omp simd
      for (std::int64_t c = 0; c < k_; ++c) dz[c] = (vector_exp(z[c] - largest) * inverse - even) * scale;
      dz[label] -= (1.0f - spec_.label_smoothing) * scale;
    }
    return static_cast<float>(loss);
  }

  float binary_row(const float* z, const float* target, float* dz, float scale) const {
    double loss = 0;
    for (std::int64_t i = 0; i < k_; ++i) {
      const float e = std::exp(-std::abs(z[i]));
      loss += static_cast<double>(std::max(z[i], 0.0f) - z[i] * target[i] + std::log1p(e));
      if (dz) dz[i] = ((z[i] >= 0 ? 1.0f : e) / (1.0f + e) - target[i]) * scale / static_cast<float>(k_);
    }
    return static_cast<float>(loss / static_cast<double>(k_));
  }

  float squared_row(const float* z, const float* target, float* dz, float scale) const {
    double loss = 0;
    for (std::int64_t i = 0; i < k_; ++i) {
      const float d = z[i] - target[i];
      loss += static_cast<double>(d) * static_cast<double>(d);
      if (dz) dz[i] = 2.0f * d * scale / static_cast<float>(k_);
    }
    return static_cast<float>(loss / static_cast<double>(k_));
  }

  LossSpec spec_;
  TensorDesc predictions_;
  int threads_;
  std::int64_t rows_, positions_ = 1, k_ = 0, elements_ = 0;  // k_: classes, or predictions of a sample
  std::vector<float> plain_, plain_grad_, position_loss_;
};

}  // namespace

std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int threads) {
  return std::make_unique<Loss>(spec, predictions, threads);
}

}  // namespace muster::device::cpu
