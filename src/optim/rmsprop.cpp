// RMSprop (Tieleman and Hinton 2012, in PyTorch's form):
//   s = decay_rate * s + (1 - decay_rate) * g^2;   w = w - lr * g / (sqrt(s) + epsilon)
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const OptimizerOptions& options) : options_(options), slots_{"square_average"} {}
  const std::vector<std::string>& slots() const override { return slots_; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    const float lr = static_cast<float>(context.lr), scale = static_cast<float>(context.grad_scale);
    const float rate = static_cast<float>(options_.decay_rate), epsilon = static_cast<float>(options_.epsilon);
    float *w = weights.data(), *s = state[0].data();
    const float* g = grads.data();
    for_each_piece(runs, context.threads, [&](const ParamRun& run, std::int64_t begin, std::int64_t end) {
      const float decay = run.has_decay ? static_cast<float>(options_.weight_decay) : 0.0f;
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = scale * g[i] + decay * w[i];
        s[i] = rate * s[i] + (1.0f - rate) * d * d;
        w[i] -= lr * d / (std::sqrt(s[i]) + epsilon);
      }
    });
  }

 private:
  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options) { return std::make_unique<RmsProp>(options); }

}  // namespace muster::optim
