// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2), in PyTorch's form:
//   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
//   w = w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
// adam: g includes weight_decay * w;  adamw: w = (1 - lr * weight_decay) w first.
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

class Adam : public Optimizer {
 public:
  explicit Adam(const OptimizerOptions& options)
      : options_(options), is_decoupled_(options.kind == "adamw"), slots_{"m", "v"} {}
  const std::vector<std::string>& slots() const override { return slots_; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    const float scale = static_cast<float>(context.grad_scale);
    const float beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
    const float rest1 = static_cast<float>(1.0 - options_.beta1), rest2 = static_cast<float>(1.0 - options_.beta2);
    const double t = static_cast<double>(context.step);
    const float step_size = static_cast<float>(context.lr / (1.0 - std::pow(options_.beta1, t)));
    const float inverse_root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t)));
    const float epsilon = static_cast<float>(options_.epsilon);
    float *w = weights.data(), *m = state[0].data(), *v = state[1].data();
    const float* g = grads.data();
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      const double decay = part.run.has_decay ? options_.weight_decay : 0.0;
      const float coupled = is_decoupled_ ? 0.0f : static_cast<float>(decay);
      const float shrink = is_decoupled_ ? static_cast<float>(1.0 - context.lr * decay) : 1.0f;
#pragma omp simd
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const float d = scale * g[i] + coupled * w[i];
        const float mean = beta1 * m[i] + rest1 * d, square = beta2 * v[i] + rest2 * d * d;
        m[i] = mean;
        v[i] = square;
        w[i] = shrink * w[i] - step_size * mean / (std::sqrt(square) * inverse_root + epsilon);
      }
    });
  }

 private:
  OptimizerOptions options_;
  bool is_decoupled_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options) { return std::make_unique<Adam>(options); }

}  // namespace muster::optim
