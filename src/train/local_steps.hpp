// parallel.push_every: H above 1: a worker of the parameter servers trains by itself for H batches, then pushes what
// has become of the weights (local SGD: Stich, "Local SGD converges fast and communicates little", ICLR 2019, without
// its barrier; the pushes of Dean et al., "Large scale distributed deep networks", NIPS 2012).
//
//   pull      w0 = the servers' weights and running values
//   H times   a whole step of its own optimizer (optimizer: of the config, the rate of each batch by the schedule)
//   push      w0 - w, and the running values as they are now; the servers subtract the difference from what their
//             weights are by then
//
// parallel.elastic: alpha above 0 (elastic averaging: Zhang, Choromanska and LeCun, "Deep learning with elastic
// averaging SGD", NIPS 2015, equations 5 and 6 in the asynchronous form of its algorithm 1): a worker's weights x are
// its own. It pulls them once, at its start; from then on
//
//   H times   a whole step of its own optimizer
//   pull      c = the servers' weights as they are now
//   push      alpha (c - x): the servers subtract it from theirs, the worker adds it to its own; and its running values
//
// (The first push of a worker takes for c what it has pulled at the start.)
//
// The state of a worker's optimizer, and with `elastic` its weights and running values, stay with the worker from push
// to push. They start anew (empty; pulled) with it, also where a push was not accepted, the worker is back after it was
// gone, or the run was resumed. Who computes the same from the same weights and state gets the same bits (replay.cpp).
#pragma once

#include <muster/optim/optimizer.hpp>
#include <muster/train/assemble.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace muster::train {

/// What a worker keeps from push to push.
struct LocalState {
  std::vector<std::vector<float>> slots;  ///< as Optimizer::slots, of all parameters
  std::vector<float> weights, running;    ///< its own; empty where every push begins with those of the servers
  std::int64_t steps = 0;                 ///< made since it was empty

  LocalState(const TrainableModel& model, double elastic);
  void clear();
  /// The next push begins with its own weights.
  bool has_weights() const { return steps > 0 && !weights.empty(); }
};

/// Weights and running values of the first step: the worker's own, else the servers'. pulled: unused in the first case.
void start_push(Replica& replica, const LocalState& state, std::span<const float> pulled,
                std::span<const float> running);

/// One step on `batch` with the replica's optimizer: weights, running values and `state` move on, but where the loss is
/// not finite. step: of the run, 0-based.
StepResult make_local_step(Replica& replica, const dataset::Batch& batch, std::int64_t step, double lr,
                           LocalState& state);

/// What is to be pushed after the last step. pulled: the servers' weights. elastic 0: change = pulled - weights,
/// element by element; else elastic * (pulled - weights), which moves the replica's weights, and they are kept in
/// `state`.
void finish_push(Replica& replica, LocalState& state, std::span<const float> pulled, double elastic,
                 std::span<float> change);

/// change = elastic * (center - weights); weights += change.
void draw_together(std::span<const float> center, double elastic, std::span<float> weights, std::span<float> change);

/// What the servers do with it: w -= rate * change.
std::unique_ptr<optim::Optimizer> make_change_optimizer();

}  // namespace muster::train
