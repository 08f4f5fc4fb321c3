// parallel.push_every: H above 1: a worker of the parameter servers trains by itself for H batches, then pushes what
// has become of the weights (local SGD: Stich, "Local SGD converges fast and communicates little", ICLR 2019, without
// its barrier; the pushes of Dean et al., "Large scale distributed deep networks", NIPS 2012).
//
//   pull      w0 = the servers' weights and running values
//   H times   a whole step of its own optimizer (optimizer: of the config, the rate of each batch by the schedule)
//   push      w0 - w, and the running values as they are now; the servers subtract the difference from what their
//             weights are by then
//
// The state of a worker's optimizer stays with the worker from push to push; it starts empty, also where a push was not
// accepted, the worker is back after it was gone, or the run was resumed. Who computes the same from the same weights
// and state gets the same bits (replay.cpp).
#pragma once

#include <muster/optim/optimizer.hpp>
#include <muster/train/assemble.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace muster::train {

/// Of one worker's optimizer.
struct LocalState {
  std::vector<std::vector<float>> slots;  ///< as Optimizer::slots, of all parameters
  std::int64_t steps = 0;                 ///< made since it was empty

  explicit LocalState(const TrainableModel& model);
  void clear();
};

/// One step on `batch` with the replica's optimizer: weights, running values and `state` move on, but where the loss is
/// not finite. step: of the run, 0-based.
StepResult make_local_step(Replica& replica, const dataset::Batch& batch, std::int64_t step, double lr,
                           LocalState& state);

/// change = pulled - the replica's weights, element by element.
void take_change(std::span<const float> pulled, Replica& replica, std::span<float> change);

/// What the servers do with it: w -= rate * change.
std::unique_ptr<optim::Optimizer> make_change_optimizer();

}  // namespace muster::train
