// LARS (You, Gitman and Ginsburg 2017, algorithm 1): SGD with momentum whose rate is scaled per parameter,
//   local = trust_coefficient * |w| / (|g| + weight_decay * |w|)     (1 where a norm is 0 or has_decay is off)
//   v = momentum v + lr * local * (g + weight_decay w);   w = w - v
// g is the gradient after grad_scale. Norms are taken in double over fixed pieces; runs must be whole parameters.
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

/// Kept between steps, so that a step allocates nothing.
struct Scratch {
  std::vector<double> weight_pieces, grad_pieces, weight_squares, grad_squares;
};

class Lars : public Optimizer {
 public:
  explicit Lars(const OptimizerOptions& options) : options_(options), slots_{"momentum"} {}
  const std::vector<std::string>& slots() const override { return slots_; }
  bool needs_whole_parameters() const override { return true; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    thread_local Scratch kept;
    Scratch& scratch = kept;  // the caller's, also inside parallel regions
    measure(context, weights.data(), grads.data(), runs, scratch);
    const float scale = static_cast<float>(context.grad_scale), momentum = static_cast<float>(options_.momentum);
    float *w = weights.data(), *v = state[0].data();
    const float* g = grads.data();
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      const float decay = part.run.has_decay ? static_cast<float>(options_.weight_decay) : 0.0f;
      const float rate = static_cast<float>(context.lr * local_rate(part, context.grad_scale, scratch));
#pragma omp simd
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const float velocity = momentum * v[i] + rate * (scale * g[i] + decay * w[i]);
        v[i] = velocity;
        w[i] -= velocity;
      }
    });
  }

 private:
  static void measure(const UpdateContext& context, const float* w, const float* g, std::span<const ParamRun> runs,
                      Scratch& scratch) {
    scratch.weight_pieces.assign(piece_count(runs), 0.0);
    scratch.grad_pieces.assign(piece_count(runs), 0.0);
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      if (!part.run.has_decay) return;
      scratch.weight_pieces[part.index] = piece_squares(w + part.begin, part.end - part.begin);
      scratch.grad_pieces[part.index] = piece_squares(g + part.begin, part.end - part.begin);
    });
    add_pieces(runs, scratch.weight_pieces, scratch.weight_squares);
    add_pieces(runs, scratch.grad_pieces, scratch.grad_squares);
  }

  double local_rate(const Piece& part, double grad_scale, const Scratch& scratch) const {
    if (!part.run.has_decay) return 1.0;
    const double weight_norm = std::sqrt(scratch.weight_squares[part.run_index]);
    const double grad_norm = grad_scale * std::sqrt(scratch.grad_squares[part.run_index]);
    if (weight_norm == 0 || grad_norm == 0) return 1.0;
    return options_.trust_coefficient * weight_norm / (grad_norm + options_.weight_decay * weight_norm);
  }

  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options) { return std::make_unique<Lars>(options); }

}  // namespace muster::optim
