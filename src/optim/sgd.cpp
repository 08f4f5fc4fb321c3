// Stochastic gradient descent, with momentum, and with Nesterov's (Sutskever et al. 2013, in PyTorch's form):
//   g = grad_scale * grad + weight_decay * w
//   v = momentum * v + g            (the first v is g)
//   w = w - lr * v                  nesterov: w = w - lr * (g + momentum * v)
#include "optim/optimizer.hpp"

namespace muster::optim {
namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options)
      : momentum_(options.kind == "sgd" ? 0.0f : static_cast<float>(options.momentum)),
        is_nesterov_(options.kind == "nesterov"),
        decay_(static_cast<float>(options.weight_decay)) {
    if (options.kind != "sgd") slots_ = {"momentum"};
  }
  const std::vector<std::string>& slots() const override { return slots_; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    const float lr = static_cast<float>(context.lr), scale = static_cast<float>(context.grad_scale), mu = momentum_;
    float* w = weights.data();
    const float* g = grads.data();
    float* v = slots_.empty() ? nullptr : state[0].data();
    for_each_piece(runs, context.threads, [&, is_nesterov = is_nesterov_](const Piece& part) {
      const std::int64_t begin = part.begin, end = part.end;
      const float decay = part.run.has_decay ? decay_ : 0.0f;
      if (!v) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) w[i] -= lr * (scale * g[i] + decay * w[i]);
      } else if (is_nesterov) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          const float d = scale * g[i] + decay * w[i];
          const float velocity = mu * v[i] + d;
          v[i] = velocity;
          w[i] -= lr * (d + mu * velocity);
        }
      } else {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          const float velocity = mu * v[i] + (scale * g[i] + decay * w[i]);
          v[i] = velocity;
          w[i] -= lr * velocity;
        }
      }
    });
  }

 private:
  std::vector<std::string> slots_;
  float momentum_;
  bool is_nesterov_;
  float decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace muster::optim
