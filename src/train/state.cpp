#include <muster/train/state.hpp>

#include <muster/base/error.hpp>

#include <algorithm>

namespace muster::train {
namespace {

const NamedTensor& find(const std::vector<NamedTensor>& tensors, const std::string& name, const Shape& shape) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; });
  if (found == tensors.end())
    fail(ExitCode::checkpoint,
         "the checkpoint has no '{}': it belongs to another network or optimizer; use the config it was made with",
         name);
  if (found->shape != shape)
    fail(ExitCode::checkpoint,
         "'{}' has shape {} in the checkpoint, {} in the network; use the config it was made with", name,
         found->shape.text(), shape.text());
  return *found;
}

std::string slot_name(const std::string& slot, const model::ParamInfo& param) { return slot + "/" + param.name; }

}  // namespace

CheckpointState gather_state(Replica& replica) {
  CheckpointState state;
  const auto& params = replica.network.params;
  for (std::size_t p = 0; p < params.size(); ++p) {
    state.weights.push_back(
        {params[p].name, params[p].shape, replica.store->to_plain(static_cast<int>(p), replica.store->weights())});
    for (std::size_t slot = 0; slot < replica.optimizer_state.size(); ++slot)
      state.optimizer.push_back({slot_name(replica.optimizer->slots()[slot], params[p]), params[p].shape,
                                 replica.store->to_plain(static_cast<int>(p), replica.optimizer_state[slot])});
  }
  for (std::size_t s = 0; s < replica.network.states.size(); ++s) {
    const auto values = replica.store->state(static_cast<int>(s));
    state.weights.push_back(
        {replica.network.states[s].name, replica.network.states[s].shape, {values.begin(), values.end()}});
  }
  return state;
}

void restore_weights(const CheckpointState& state, const model::Network& network, model::ParameterStore& store) {
  for (std::size_t p = 0; p < network.params.size(); ++p)
    store.from_plain(static_cast<int>(p), find(state.weights, network.params[p].name, network.params[p].shape).values,
                     store.weights());
  for (std::size_t s = 0; s < network.states.size(); ++s)
    std::ranges::copy(find(state.weights, network.states[s].name, network.states[s].shape).values,
                      store.state(static_cast<int>(s)).begin());
}

void restore_state(const CheckpointState& state, Replica& replica) {
  restore_weights(state, replica.network, *replica.store);
  const auto& params = replica.network.params;
  for (std::size_t slot = 0; slot < replica.optimizer_state.size(); ++slot)
    for (std::size_t p = 0; p < params.size(); ++p)
      replica.store->from_plain(
          static_cast<int>(p),
          find(state.optimizer, slot_name(replica.optimizer->slots()[slot], params[p]), params[p].shape).values,
          replica.optimizer_state[slot]);
}

}  // namespace muster::train
