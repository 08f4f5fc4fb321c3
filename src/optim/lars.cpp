// LARS (You, Gitman and Ginsburg 2017, algorithm 1): SGD with momentum whose rate is scaled per parameter,
//   local = trust_coefficient * |w| / (|g| + weight_decay * |w|)     (1 where a norm is 0 or has_decay is off)
//   v = momentum v + lr * local * (g + weight_decay w);   w = w - v
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

class Lars : public Optimizer {
 public:
  explicit Lars(const OptimizerOptions& options) : options_(options), slots_{"momentum"} {}
  const std::vector<std::string>& slots() const override { return slots_; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    const float scale = static_cast<float>(context.grad_scale), momentum = static_cast<float>(options_.momentum);
    float *w = weights.data(), *v = state[0].data();
    const float* g = grads.data();
    for (const ParamRun& run : runs) {
      const float decay = run.has_decay ? static_cast<float>(options_.weight_decay) : 0.0f;
      const float rate = static_cast<float>(context.lr * local_rate(run, context, weights, grads));
      for_each_piece({&run, 1}, context.threads, [&](const ParamRun&, std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          v[i] = momentum * v[i] + rate * (scale * g[i] + decay * w[i]);
          w[i] -= v[i];
        }
      });
    }
  }

 private:
  double local_rate(const ParamRun& run, const UpdateContext& context, std::span<const float> weights, std::span<const float> grads) const {
    if (!run.has_decay) return 1.0;
    const auto begin = static_cast<std::size_t>(run.elements.begin), count = static_cast<std::size_t>(run.elements.size());
    const double weight_norm = std::sqrt(squared_norm(weights.subspan(begin, count), context.threads));
    const double grad_norm = context.grad_scale * std::sqrt(squared_norm(grads.subspan(begin, count), context.threads));
    if (weight_norm == 0 || grad_norm == 0) return 1.0;
    return options_.trust_coefficient * weight_norm / (grad_norm + options_.weight_decay * weight_norm);
  }

  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options) { return std::make_unique<Lars>(options); }

}  // namespace muster::optim
