// LAMB (You et al. 2020, algorithm 2, with bias correction and phi the identity): Adam's direction, scaled per run,
//   r = m^ / (sqrt(v^) + epsilon) + weight_decay w;   w = w - lr * |w| / |r| * r
// The ratio |w| / |r| is 1 where a norm is 0 or has_decay is off; m^ and v^ are Adam's corrected averages. Norms are
// taken in double over fixed pieces; runs must be whole parameters.
#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

/// Kept between steps, so that a step allocates nothing.
struct Scratch {
  std::vector<double> weight_pieces, direction_pieces, weight_squares, direction_squares;
};

class Lamb : public Optimizer {
 public:
  explicit Lamb(const OptimizerOptions& options) : options_(options), slots_{"m", "v"} {}
  const std::vector<std::string>& slots() const override { return slots_; }
  bool needs_whole_parameters() const override { return true; }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    thread_local Scratch kept;
    Scratch& scratch = kept;  // the caller's, also inside parallel regions
    scratch.weight_pieces.assign(piece_count(runs), 0.0);
    scratch.direction_pieces.assign(piece_count(runs), 0.0);
    const Factors factors(options_, context);
    float *w = weights.data(), *m = state[0].data(), *v = state[1].data();
    const float* g = grads.data();
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      float directions[piece_elements];
      update_averages(factors, part, g, m, v);
      factors.direct(part, w, m, v, directions);
      scratch.weight_pieces[part.index] = piece_squares(w + part.begin, part.end - part.begin);
      scratch.direction_pieces[part.index] = piece_squares(directions, part.end - part.begin);
    });
    add_pieces(runs, scratch.weight_pieces, scratch.weight_squares);
    add_pieces(runs, scratch.direction_pieces, scratch.direction_squares);
    for_each_piece(runs, context.threads, [&](const Piece& part) {
      float directions[piece_elements];
      factors.direct(part, w, m, v, directions);
      const double of_weights = scratch.weight_squares[part.run_index],
                   of_direction = scratch.direction_squares[part.run_index];
      const bool is_scaled = part.run.has_decay && of_weights > 0 && of_direction > 0;
      const float rate = static_cast<float>(context.lr * (is_scaled ? std::sqrt(of_weights / of_direction) : 1.0));
#pragma omp simd
      for (std::int64_t i = part.begin; i < part.end; ++i) w[i] -= rate * directions[i - part.begin];
    });
  }

 private:
  struct Factors {
    float scale, beta1, rest1, beta2, rest2, correct1, correct2, epsilon, weight_decay;
    Factors(const OptimizerOptions& o, const UpdateContext& context)
        : scale(static_cast<float>(context.grad_scale)),
          beta1(static_cast<float>(o.beta1)),
          rest1(static_cast<float>(1.0 - o.beta1)),
          beta2(static_cast<float>(o.beta2)),
          rest2(static_cast<float>(1.0 - o.beta2)),
          correct1(static_cast<float>(1.0 / (1.0 - std::pow(o.beta1, static_cast<double>(context.step))))),
          correct2(static_cast<float>(1.0 / (1.0 - std::pow(o.beta2, static_cast<double>(context.step))))),
          epsilon(static_cast<float>(o.epsilon)),
          weight_decay(static_cast<float>(o.weight_decay)) {}

    /// directions[0 ..]: r of the piece's elements.
    void direct(const Piece& part, const float* w, const float* m, const float* v, float* directions) const {
      const float decay = part.run.has_decay ? weight_decay : 0.0f, c1 = correct1, c2 = correct2, e = epsilon;
#pragma omp simd
      for (std::int64_t i = part.begin; i < part.end; ++i)
        directions[i - part.begin] = m[i] * c1 / (std::sqrt(v[i] * c2) + e) + decay * w[i];
    }
  };

  static void update_averages(const Factors& f, const Piece& part, const float* g, float* m, float* v) {
    const float scale = f.scale, beta1 = f.beta1, rest1 = f.rest1, beta2 = f.beta2, rest2 = f.rest2;
#pragma omp simd
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const float d = scale * g[i];
      m[i] = beta1 * m[i] + rest1 * d;
      v[i] = beta2 * v[i] + rest2 * d * d;
    }
  }

  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options) { return std::make_unique<Lamb>(options); }

}  // namespace muster::optim
