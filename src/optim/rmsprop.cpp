// RMSprop (Tieleman and Hinton 2012, in PyTorch's form):
//   g includes weight_decay * w;
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
    const float rate = static_cast<float>(options_.decay_rate), rest = static_cast<float>(1.0 - options_.decay_rate);
    const float epsilon = static_cast<float>(options_.epsilon);
    float *w = weights.data(), *s = state[0].data();
    const float* g = grads.data();
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      const float decay = part.run.has_decay ? static_cast<float>(options_.weight_decay) : 0.0f;
#pragma omp simd
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const float d = scale * g[i] + decay * w[i];
        const float average = rate * s[i] + rest * d * d;
        s[i] = average;
        w[i] -= lr * d / (std::sqrt(average) + epsilon);
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
