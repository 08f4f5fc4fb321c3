#include "train/local_steps.hpp"

#include <muster/base/check.hpp>

#include <algorithm>

namespace muster::train {

LocalState::LocalState(const TrainableModel& model)
    : slots(model.optimizer->slots().size(), std::vector<float>(static_cast<std::size_t>(model.store->elements()))) {}

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

void take_change(std::span<const float> pulled, Replica& replica, std::span<float> change) {
  const std::span<const float> weights = replica.store->weights();
  MUSTER_CHECK(pulled.size() == weights.size() && change.size() == weights.size(), "{} and {} of {} elements",
               pulled.size(), change.size(), weights.size());
  for (std::size_t i = 0; i < change.size(); ++i) change[i] = pulled[i] - weights[i];
}

std::unique_ptr<optim::Optimizer> make_change_optimizer() {
  optim::OptimizerOptions plain;  // sgd, no weight decay
  plain.lr = 1;
  return optim::make_optimizer(plain);
}

}  // namespace muster::train
