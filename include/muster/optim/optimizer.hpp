// Optimizers on flat slices: weights, gradients and state are flat float arenas of one order, so an update is a few
// fused loops over slices whoever owns them (a replica, a parameter server, a shard). Nothing here knows layers or
// ranks.
#pragma once

#include <muster/base/ids.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::device {
class Backend;
}

namespace muster::optim {

/// The `optimizer:` section. Defaults of the fields that apply to a kind are those of PyTorch.
struct OptimizerOptions {
  std::string kind = "sgd";  ///< sgd | momentum | nesterov | rmsprop | adam | adamw | lars | lamb
  double lr = 0.01;          ///< base learning rate, before schedule and lr_scaling
  double momentum = 0.9;     ///< momentum, nesterov, lars; rmsprop: 0
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double decay_rate = 0.99;          ///< rmsprop: smoothing of the squared gradient
  double weight_decay = 0.0;         ///< L2 for sgd, momentum, nesterov, rmsprop, adam, lars; decoupled for adamw, lamb
  double trust_coefficient = 0.001;  ///< lars
  std::vector<std::string> no_decay{
      "bias", "gamma", "beta"};  ///< parameters whose name ends so get no weight decay (and no lars/lamb scaling)
  double clip_norm = 0.0;        ///< global gradient norm limit; 0: off
};

/// One parameter inside the flat arenas.
struct ParamRun {
  std::string name;
  Range elements;         ///< in the arenas, padding included (padding stays zero under every optimizer)
  bool has_decay = true;  ///< weight decay and layer-wise scaling apply
};

struct UpdateContext {
  double lr = 0;            ///< of this step, after schedule and scaling
  std::int64_t step = 1;    ///< 1 for the first update (bias correction)
  double grad_scale = 1.0;  ///< gradients are multiplied by this first (clipping)
  int threads = 1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the per-element state arrays: {} for sgd, {"momentum"}, {"m", "v"} for adam ...
  virtual const std::vector<std::string>& slots() const = 0;
  /// True: update() must be given every parameter it touches as a whole (its norm matters).
  virtual bool needs_whole_parameters() const { return false; }
  /// weights, grads, state[slot]: whole arenas or the same sub-span of all; runs index into them. Updates weights and
  /// state of every run. The result does not depend on the number of threads.
  virtual void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
                      std::span<const std::span<float>> state, std::span<const ParamRun> runs) const = 0;
};
/// Throws Error(usage) for an unknown kind or values out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);
/// The same for arenas in the memory of `backend`, which must outlive it: where the host cannot touch them the backend
/// does the updates (Backend::update). Throws Error(usage) where it cannot.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, device::Backend& backend);
std::vector<std::string> optimizer_kinds();

/// Sum of squares in double: fixed blocks added along a fixed tree, so that it does not depend on threads.
double squared_norm(std::span<const float> values, int threads);
/// The same in two steps, for those that hold a stretch of the values that begins at a multiple of norm_piece: squares
/// has norm_pieces(values) entries; the sum of all entries in order is the squared norm, to the bit.
inline constexpr std::int64_t norm_piece = 4096;
constexpr std::int64_t norm_pieces(std::int64_t values) { return (values + norm_piece - 1) / norm_piece; }
void square_pieces(std::span<const float> values, int threads, std::span<double> squares);
/// min(1, clip_norm / norm); 1 when clip_norm is 0. Pascanu et al. 2013.
double clip_scale(double norm, double clip_norm);

/// The `schedule:` section. All kinds start with an optional linear warm-up from warmup_start * lr.
struct ScheduleOptions {
  std::string kind = "constant";  ///< constant | step | exponential | cosine | polynomial
  double warmup_epochs = 0;
  std::int64_t warmup_steps = 0;  ///< one of the two
  double warmup_start = 0.0;      ///< factor of lr at step 0: step s of a warm-up of n gets start + (1 - start) s / n
  double min_factor = 0.0;        ///< cosine, polynomial: factor of lr at the end
  double power = 1.0;             ///< polynomial
  double gamma = 0.1;             ///< step: factor at each boundary; exponential: factor per epoch
  std::vector<double> at_epochs;  ///< step: boundaries
};
/// Learning-rate factor as a pure function of the step. The constructor throws Error(usage) for values out of range,
/// two warm-up lengths, or a warm-up longer than the training.
class Schedule {
 public:
  Schedule(const ScheduleOptions& options, std::int64_t total_steps, double steps_per_epoch);
  /// step: 0-based index of the update about to be made.
  double factor(std::int64_t step) const;

 private:
  ScheduleOptions options_;
  std::int64_t total_steps_;
  double steps_per_epoch_;
  std::int64_t warmup_;
};
std::vector<std::string> schedule_kinds();

/// parallel.lr_scaling: factor for `replicas` data-parallel replicas. none 1, linear n (Goyal et al. 2017), sqrt
/// sqrt(n) (Krizhevsky 2014); empty: 1 for one replica. Throws Error(usage) for another rule.
double lr_scaling_factor(const std::string& rule, int replicas);

}  // namespace muster::optim
