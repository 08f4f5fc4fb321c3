// LAMB (You et al. 2020, algorithm 2, with bias correction and phi the identity): Adam's direction, scaled per parameter,
//   r = m^ / (sqrt(v^) + epsilon) + weight_decay w;   w = w - lr * |w| / |r| * r    (ratio 1 where a norm is 0 or has_decay is off)
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

class Lamb : public Optimizer {
 public:
  explicit Lamb(const OptimizerOptions& options) : options_(options), slots_{"m", "v"} {}
  const std::vector<std::string>& slots() const override { return slots_; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    for (const ParamRun& run : runs) update_run(context, weights.data(), grads.data(), state[0].data(), state[1].data(), run);
  }

 private:
  void update_run(const UpdateContext& context, float* w, const float* g, float* m, float* v, const ParamRun& run) const {
    const float scale = static_cast<float>(context.grad_scale);
    const float beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
    const float rest1 = static_cast<float>(1.0 - options_.beta1), rest2 = static_cast<float>(1.0 - options_.beta2);
    const double t = static_cast<double>(context.step);
    const float correct1 = static_cast<float>(1.0 / (1.0 - std::pow(options_.beta1, t)));
    const float correct2 = static_cast<float>(1.0 / (1.0 - std::pow(options_.beta2, t)));
    const float epsilon = static_cast<float>(options_.epsilon);
    const float decay = run.has_decay ? static_cast<float>(options_.weight_decay) : 0.0f;
    const auto direction = [=](std::int64_t i) {
      return m[i] * correct1 / (std::sqrt(v[i] * correct2) + epsilon) + decay * w[i];
    };

    // Norms piece by piece, added in order of the pieces.
    const std::int64_t pieces = (run.elements.size() + piece - 1) / piece;
    std::vector<double> weight_squares(static_cast<std::size_t>(pieces)), direction_squares(static_cast<std::size_t>(pieces));
    for_each_piece({&run, 1}, context.threads, [&](const ParamRun&, std::int64_t begin, std::int64_t end) {
      double of_weights = 0, of_direction = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = scale * g[i];
        m[i] = beta1 * m[i] + rest1 * d;
        v[i] = beta2 * v[i] + rest2 * d * d;
        const double r = static_cast<double>(direction(i));
        of_weights += static_cast<double>(w[i]) * static_cast<double>(w[i]);
        of_direction += r * r;
      }
      const auto at = static_cast<std::size_t>((begin - run.elements.begin) / piece);
      weight_squares[at] = of_weights;
      direction_squares[at] = of_direction;
    });
    double of_weights = 0, of_direction = 0;
    for (std::size_t p = 0; p < weight_squares.size(); ++p) of_weights += weight_squares[p], of_direction += direction_squares[p];
    const bool is_scaled = run.has_decay && of_weights > 0 && of_direction > 0;
    const float rate = static_cast<float>(context.lr * (is_scaled ? std::sqrt(of_weights / of_direction) : 1.0));
    for_each_piece({&run, 1}, context.threads, [&](const ParamRun&, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) w[i] -= rate * direction(i);
    });
  }

  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options) { return std::make_unique<Lamb>(options); }

}  // namespace muster::optim
