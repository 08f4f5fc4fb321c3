#include <muster/train/state.hpp>

#include <muster/base/check.hpp>
#include <muster/base/error.hpp>
#include <muster/train/gpt2.hpp>

#include <algorithm>
#include <map>
#include <set>

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

CheckpointState gather_state(TrainableModel& model) {
  const std::vector<std::span<const float>> own(model.optimizer_state.begin(), model.optimizer_state.end());
  return gather_state(model, own);
}

CheckpointState gather_state(TrainableModel& model, std::span<const std::span<const float>> optimizer_state) {
  CheckpointState state;
  MUSTER_CHECK_EQ(optimizer_state.size(), model.optimizer->slots().size());
  for (const auto& slot : optimizer_state)
    MUSTER_CHECK_EQ(static_cast<std::int64_t>(slot.size()), model.store->elements());
  const auto& params = model.network.params;
  for (std::size_t p = 0; p < params.size(); ++p) {
    state.weights.push_back(
        {params[p].name, params[p].shape, model.store->to_plain(static_cast<int>(p), model.store->weights())});
    for (std::size_t slot = 0; slot < optimizer_state.size(); ++slot)
      state.optimizer.push_back({slot_name(model.optimizer->slots()[slot], params[p]), params[p].shape,
                                 model.store->to_plain(static_cast<int>(p), optimizer_state[slot])});
  }
  for (std::size_t s = 0; s < model.network.states.size(); ++s) {
    const model::StateInfo& running = model.network.states[s];
    state.weights.push_back({running.name, running.shape, model.store->read_state(static_cast<int>(s))});
  }
  return state;
}

namespace {

/// Names and shapes of a stage's tensors, in the order of gather_state(), without values.
CheckpointState tensors_of(const model::Network& stage, const std::vector<std::string>& slots) {
  CheckpointState state;
  for (const auto& param : stage.params) {
    state.weights.push_back({param.name, param.shape, {}});
    for (const std::string& slot : slots) state.optimizer.push_back({slot_name(slot, param), param.shape, {}});
  }
  for (const auto& running : stage.states) state.weights.push_back({running.name, running.shape, {}});
  return state;
}

template <class State, class Visit>
void for_each_tensor(State& state, const Visit& visit) {
  for (auto& tensor : state.weights) visit(tensor);
  for (auto& tensor : state.optimizer) visit(tensor);
}

constexpr int state_tag = 3;  // beside those of the messages between stages
const std::string state_of_a_stage = "state of a stage";

void wait_for(comm::Communicator& replica, const comm::RequestPtr& request, int peer) {
  replica.wait_all(std::span(&request, 1), std::span(&peer, 1), state_of_a_stage);
}

}  // namespace

CheckpointState gather_stages(CheckpointState own, const TrainableModel& model, comm::Communicator& replica) {
  if (replica.rank() != 0) {
    for_each_tensor(own, [&](NamedTensor& tensor) {
      wait_for(replica, replica.send(comm::bytes_of(std::span<const float>(tensor.values)), 0, state_tag), 0);
      tensor.values = {};
    });
    return {};
  }
  const std::vector<std::string>& slots = model.optimizer->slots();
  CheckpointState whole = tensors_of(model.whole, slots);
  std::map<std::string, NamedTensor*> by_name;  // slots' names begin with "<slot>/", no weight has them
  for_each_tensor(whole, [&](NamedTensor& tensor) { by_name.emplace(tensor.name, &tensor); });
  for_each_tensor(own, [&](NamedTensor& tensor) { by_name.at(tensor.name)->values = std::move(tensor.values); });
  for (int stage = 1; stage < model.cut.stages(); ++stage) {
    const CheckpointState theirs = tensors_of(model::stage_network(model.whole, model.cut, stage), slots);
    for_each_tensor(theirs, [&](const NamedTensor& tensor) {
      std::vector<float>& values = by_name.at(tensor.name)->values;  // there already, and equal, where it is tied
      values.resize(static_cast<std::size_t>(tensor.shape.elements()));
      wait_for(replica, replica.receive(comm::bytes_of(std::span(values)), stage, state_tag), stage);
    });
  }
  return whole;
}

void restore_weights(const CheckpointState& state, const model::Network& network, model::ParameterStore& store) {
  for (std::size_t p = 0; p < network.params.size(); ++p)
    store.from_plain(static_cast<int>(p), find(state.weights, network.params[p].name, network.params[p].shape).values,
                     store.weights());
  for (std::size_t s = 0; s < network.states.size(); ++s)
    store.write_state(static_cast<int>(s), find(state.weights, network.states[s].name, network.states[s].shape).values);
}

namespace {

void refuse_unknown(const std::vector<NamedTensor>& tensors, const std::set<std::string>& known, const char* owner) {
  for (const NamedTensor& tensor : tensors)
    if (!known.contains(tensor.name))
      fail(ExitCode::checkpoint,
           "the checkpoint holds '{}', which the {} does not have; use the config it was made with", tensor.name,
           owner);
}

void refuse_unknown_weights(const std::vector<NamedTensor>& tensors, const model::Network& whole) {
  std::set<std::string> known;
  for (const auto& param : whole.params) known.insert(param.name);
  for (const auto& running : whole.states) known.insert(running.name);
  refuse_unknown(tensors, known, "network");
}

/// Nothing of a checkpoint is silently left behind.
void refuse_unknown(const CheckpointState& state, const TrainableModel& model) {
  refuse_unknown_weights(state.weights, model.whole);
  std::set<std::string> slots;
  for (const auto& param : model.whole.params)
    for (const std::string& slot : model.optimizer->slots()) slots.insert(slot_name(slot, param));
  refuse_unknown(state.optimizer, slots, "optimizer");
}

/// Workers with steps of their own keep the optimizer's state to themselves, so it is empty in checkpoints; where both
/// moments are kept, an update corrects them by the number of updates that should be in them (Kingma and Ba 2015), and
/// with none in them would be several times too long.
void refuse_empty_moments(const CheckpointState& state, const TrainableModel& model) {
  if (state.step == 0 || model.optimizer->slots().size() < 2 || model.config.parallel.has_local_steps()) return;
  const auto is_empty = [](const NamedTensor& tensor) {
    return std::ranges::all_of(tensor.values, [](float value) { return value == 0.0f; });
  };
  if (state.optimizer.empty() || !std::ranges::all_of(state.optimizer, is_empty)) return;
  fail(ExitCode::usage,
       "the checkpoint of step {} holds no state of the optimizer: it was made with parallel.push_every or "
       "parallel.elastic, where that stays with the workers, and the first updates without it would be far too long; "
       "resume with the same keys, or start a new run from its weights.safetensors by model.weights",
       state.step);
}

}  // namespace

double state_bytes(const TrainableModel& model) {
  return sizeof(float) * static_cast<double>(model.store->elements()) *
         static_cast<double>(1 + model.optimizer_state.size());
}

void restore_state(const CheckpointState& state, TrainableModel& model) {
  refuse_unknown(state, model);
  refuse_empty_moments(state, model);
  restore_weights(state, model.network, *model.store);
  const auto& params = model.network.params;
  const bool is_whole = model.shard.size() == model.store->elements();
  std::vector<float> room;  // a shard may begin or end inside a parameter; sharded state lies in host memory
  if (!is_whole) room.resize(static_cast<std::size_t>(model.store->elements()));
  for (std::size_t slot = 0; slot < model.optimizer_state.size(); ++slot) {
    const std::span<float> own = model.optimizer_state[slot];
    for (std::size_t p = 0; p < params.size(); ++p)
      model.store->from_plain(
          static_cast<int>(p),
          find(state.optimizer, slot_name(model.optimizer->slots()[slot], params[p]), params[p].shape).values,
          is_whole ? own : std::span(room));
    if (!is_whole) std::copy_n(room.begin() + model.shard.begin, own.size(), own.begin());
  }
}

void load_start_weights(const std::string& path, TrainableModel& model) {
  CheckpointState state;
  state.weights = read_safetensors(path);
  try {
    if (is_gpt2(state.weights)) state.weights = from_gpt2(model.whole, state.weights);
    refuse_unknown_weights(state.weights, model.whole);
    restore_weights(state, model.network, *model.store);
  } catch (const Error& error) {
    fail(error.code(), "model.weights {}: {}", path, error.what());
  }
}

}  // namespace muster::train
