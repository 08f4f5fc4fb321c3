#include "train/local_steps.hpp"

#include "train/async.hpp"

#include <muster/base/check.hpp>

#include <algorithm>

namespace muster::train {

LocalState::LocalState(const TrainableModel& model, double elastic)
    : slots(model.optimizer->slots().size(), std::vector<float>(static_cast<std::size_t>(model.store->elements()))) {
  if (elastic <= 0) return;
  weights.resize(static_cast<std::size_t>(model.store->elements()));
  running.resize(static_cast<std::size_t>(running_elements(model.network)));
}

void LocalState::clear() {
  for (std::vector<float>& slot : slots) std::ranges::fill(slot, 0.0f);
  steps = 0;
}

StepResult make_local_step(Replica& replica, const dataset::Batch& batch, std::int64_t step, double lr,
                           LocalState& state) {
  const StepResult result = replica.step->gradient(batch, step, false);
  if (!result.is_finite) return result;
  const std::vector<std::span<float>> slots(state.slots.begin(), state.slots.end());
  const auto parameters = static_cast<std::size_t>(replica.store->elements());
  replica.optimizer->update({lr, ++state.steps, result.grad_scale, replica.threads}, replica.store->weights(),
                            replica.reducer->result().first(parameters), slots, replica.runs);
  replica.step->update_running_values(step, batch.position.rows);
  return result;
}

void start_push(Replica& replica, const LocalState& state, std::span<const float> pulled,
                std::span<const float> running) {
  const bool is_own = state.has_weights();
  std::ranges::copy(is_own ? std::span<const float>(state.weights) : pulled, replica.store->weights().begin());
  set_running(*replica.store, is_own ? std::span<const float>(state.running) : running);
}

void finish_push(Replica& replica, LocalState& state, std::span<const float> pulled, double elastic,
                 std::span<float> change) {
  const std::span<float> weights = replica.store->weights();
  MUSTER_CHECK(pulled.size() == weights.size() && change.size() == weights.size(), "{} and {} of {} elements",
               pulled.size(), change.size(), weights.size());
  if (elastic > 0) {
    draw_together(pulled, elastic, weights, change);
    std::ranges::copy(weights, state.weights.begin());
    copy_running(*replica.store, state.running);
  } else {
    for (std::size_t i = 0; i < change.size(); ++i) change[i] = pulled[i] - weights[i];
  }
}

void draw_together(std::span<const float> center, double elastic, std::span<float> weights, std::span<float> change) {
  const auto alpha = static_cast<float>(elastic);
  for (std::size_t i = 0; i < change.size(); ++i) {
    change[i] = alpha * (center[i] - weights[i]);
    weights[i] += change[i];
  }
}

std::unique_ptr<optim::Optimizer> make_change_optimizer() {
  optim::OptimizerOptions plain;  // sgd, no weight decay
  plain.lr = 1;
  return optim::make_optimizer(plain);
}

}  // namespace muster::train
