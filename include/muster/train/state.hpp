// Between a replica and a checkpoint: every tensor by name and in plain order, so neither ranks nor layouts remain.
#pragma once

#include <muster/model/parameters.hpp>
#include <muster/train/assemble.hpp>
#include <muster/train/checkpoint.hpp>

#include <span>

namespace muster::train {

/// Weights, running values and optimizer state of the replica; counters are left to the caller. Local, not collective.
/// optimizer_state: whole arenas, one per slot; without it those of the model, which then must not be sharded.
CheckpointState gather_state(TrainableModel& model, std::span<const std::span<const float>> optimizer_state);
CheckpointState gather_state(TrainableModel& model);
/// Collective over the stages of one replica (rank = stage): the state of the whole network on the first, elsewhere an
/// empty one. own: gather_state() of this stage. Tensor by tensor: what has been sent is freed, and the first stage
/// holds the whole once.
CheckpointState gather_stages(CheckpointState own, const TrainableModel& model, comm::Communicator& replica);
/// Of the weights and the optimizer's whole state.
double state_bytes(const TrainableModel& model);
/// The reverse; a sharded model takes its shard. Throws Error(checkpoint) where names or shapes do not fit the network
/// or optimizer, naming both.
void restore_state(const CheckpointState& state, TrainableModel& model);
/// Start weights from a safetensors file (model.weights), with muster's names or those of GPT-2. Throws
/// Error(checkpoint).
void load_start_weights(const std::string& path, TrainableModel& model);
/// Weights and running values only, for evaluation and prediction.
void restore_weights(const CheckpointState& state, const model::Network& network, model::ParameterStore& store);

}  // namespace muster::train
