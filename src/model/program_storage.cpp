// Where every buffer of a program lies. Time runs over the ops: forward of node i at i, the loss at N, backward of node
// i at 2N - i; other stages of a pipeline write before 0 and at N, and read at N and after 2N. A value lives from its
// writing to its last reading; values share storage where a later one may overwrite an earlier one (in-place ops) or
// equals it (the gradient that an add passes on).
#include <muster/model/program.hpp>

#include "model/compiled.hpp"
#include "model/storage_plan.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <map>

namespace muster::model {
namespace {

using device::OpTraits;

/// Reader k of a value: input `input` of node `node`.
struct Reader {
  int node;
  std::size_t input;
};

/// By source: node or entering value.
std::map<int, std::vector<Reader>> readers_of(const Network& network) {
  std::map<int, std::vector<Reader>> readers;
  for (int i = 0; i < static_cast<int>(network.nodes.size()); ++i) {
    const Node& node = network.nodes[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) readers[node.inputs[k]].push_back({i, k});
  }
  return readers;
}

bool reads_input_in_backward(const OpTraits& traits, std::size_t input) {
  return input < traits.backward_reads_input.size() && traits.backward_reads_input[input];
}

/// Whether the gradient of input k is found in the output's gradient after the op's backward.
bool leaves_grad_of(const OpTraits& traits, std::size_t k) {
  return traits.passes_grad_through || (k < traits.leaves_grad_of_input.size() && traits.leaves_grad_of_input[k]);
}

}  // namespace

void Program::plan_storage() {
  storage_ = std::make_unique<StoragePlan>();
  StoragePlan& plan = *storage_;
  const int count = static_cast<int>(ops_.size());
  const auto op_at = [&](int node) -> Compiled& { return *ops_[static_cast<std::size_t>(node)]; };
  const auto node_at = [&](int node) -> const Node& { return network_.nodes[static_cast<std::size_t>(node)]; };
  const auto backward_time = [&](int node) { return 2 * count - node; };
  auto readers = readers_of(network_);
  const auto last_use_by = [&](int node, std::size_t input) {
    const Compiled& c = op_at(node);
    return c.runs_backward && reads_input_in_backward(c.op->traits(), input) ? backward_time(node) : node;
  };

  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    int last = 0;
    for (const Reader& reader : readers[entering_value(k)])
      last = std::max(last, last_use_by(reader.node, reader.input));
    inputs_[k].value = plan.add(inputs_[k].desc.bytes(), -1, last);
  }

  // Forward: outputs and saved values. Scratch lies outside: one area serves all ops, of other programs too, since it
  // is valid during one call only.
  for (int i = 0; i < count; ++i) {
    Compiled& c = op_at(i);
    const OpTraits& traits = c.op->traits();
    int last = i >= first_read_outside() ? count : i;
    for (const Reader& reader : readers[i]) last = std::max(last, last_use_by(reader.node, reader.input));
    if (c.runs_backward && traits.backward_reads_output) last = std::max(last, backward_time(i));

    const int source = node_at(i).inputs[0];
    const bool is_in_place = traits.may_write_output_over_input && !is_entering(source) &&
                             plan.is_free_after(op_at(source).output, i) &&
                             c.inputs[0].bytes() == c.op->output().bytes() &&
                             std::count(node_at(i).inputs.begin(), node_at(i).inputs.end(), source) == 1;
    if (is_in_place) {
      c.output = op_at(source).output;
      plan.join(c.output, i, last);
    } else {
      c.output = plan.add(c.op->output().bytes(), i, last);
    }
    if (traits.saved_bytes > 0) c.saved = plan.add(traits.saved_bytes, i, c.runs_backward ? backward_time(i) : i);
    scratch_bytes_ = std::max(scratch_bytes_, traits.scratch_bytes);
  }
  if (options_.is_training) plan_gradients();
  placed_ = plan.place();
}

/// Backward: gradients in the order in which they come to be.
void Program::plan_gradients() {
  StoragePlan& plan = *storage_;
  const int count = static_cast<int>(ops_.size());
  const auto op_at = [&](int node) -> Compiled& { return *ops_[static_cast<std::size_t>(node)]; };
  const auto node_at = [&](int node) -> const Node& { return network_.nodes[static_cast<std::size_t>(node)]; };
  const auto backward_time = [&](int node) { return 2 * count - node; };
  auto readers = readers_of(network_);
  for (int i = first_read_outside(); i < count; ++i)
    if (network_.has_loss() || op_at(i).runs_backward)
      op_at(i).output_grad = plan.add(op_at(i).op->output().bytes(), count, backward_time(i));
  for (int i = count - 1; i >= 0; --i) {
    Compiled& c = op_at(i);
    if (!c.runs_backward) continue;
    const OpTraits& traits = c.op->traits();
    const int now = backward_time(i);
    MUSTER_CHECK(c.output_grad != no_storage, "no gradient reaches node {} '{}'", i, node_at(i).name);
    c.input_grads.assign(node_at(i).inputs.size(), no_storage);
    const bool needs_copy = traits.may_overwrite_output_grad && !plan.is_free_after(c.output_grad, now);
    c.working_grad = needs_copy ? plan.add(c.op->output().bytes(), now, now) : c.output_grad;

    for (int param : node_at(i).params) {
      const bool is_complete = network_.is_first_user(i, param);
      int first = 0;
      while (!network_.is_first_user(first, param)) ++first;
      const device::TensorDesc& desc = param_descs_[static_cast<std::size_t>(param)];
      c.param_grads.push_back(is_complete ? no_storage : plan.add(desc.bytes(), now, backward_time(first)));
      if (!is_complete) op_at(first).accumulations.push_back({no_storage, c.param_grads.back(), desc, param});
    }

    const auto later_writes = [&](int source) {  // further readers of the value will add their share then
      std::vector<int> writes;
      for (const Reader& other : readers[source])
        if (other.node < i) writes.push_back(backward_time(other.node));
      return writes;
    };

    for (std::size_t k = 0; k < node_at(i).inputs.size(); ++k) {
      if (!c.wants_input_grad[k]) continue;
      const int source = node_at(i).inputs[k];
      // What enters is asked for by the stage before, when all of this pass is done.
      int& source_grad = is_entering(source) ? inputs_[entering_index(source)].grad : op_at(source).output_grad;
      const int source_time = is_entering(source) ? 2 * count + 1 : backward_time(source);
      const bool is_first = source_grad == no_storage;
      const bool is_left = leaves_grad_of(traits, k);
      // An op that reads the value twice adds its second share to it while siblings may still need the first: no
      // sharing.
      const auto& inputs = node_at(i).inputs;
      const bool is_read_once = std::count(inputs.begin(), inputs.end(), source) == 1;
      if (is_first && is_left && is_read_once &&
          plan.join_equal(c.working_grad, now, source_time, later_writes(source))) {
        source_grad = c.working_grad;
      } else if (is_first && k == 0 && traits.may_write_grad_over_grad && plan.is_free_after(c.output_grad, now) &&
                 c.inputs[0].bytes() == c.op->output().bytes()) {
        source_grad = c.input_grads[k] = c.output_grad;
        plan.join(c.output_grad, now, source_time);
      } else if (is_first) {
        source_grad = c.input_grads[k] = plan.add(c.inputs[k].bytes(), now, source_time);
      } else if (is_left) {
        c.accumulations.push_back({source_grad, c.working_grad, c.inputs[k]});
      } else {
        c.input_grads[k] = plan.add(c.inputs[k].bytes(), now, now);
        c.accumulations.push_back({source_grad, c.input_grads[k], c.inputs[k]});
      }
    }
  }
}

void Program::bind_buffers(ParameterStore& store, std::span<float> gradients, const ProgramMemory& memory) {
  const auto address = [&](int storage) -> void* {
    if (storage == no_storage) return nullptr;
    return memory.arena.data() + placed_.offsets[static_cast<std::size_t>(storage)];
  };
  for (Input& input : inputs_) input.bound_value = address(input.value), input.bound_grad = address(input.grad);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Compiled& c = *ops_[i];
    const Node& node = network_.nodes[i];
    device::OpBuffers buffers;
    for (int source : node.inputs)
      buffers.inputs.push_back(is_entering(source) ? inputs_[entering_index(source)].bound_value
                                                   : address(ops_[static_cast<std::size_t>(source)]->output));
    buffers.output = address(c.output);
    buffers.output_grad = address(c.working_grad);
    if (c.working_grad != c.output_grad) c.bound_copy = {address(c.working_grad), address(c.output_grad)};
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      buffers.input_grads.push_back(k < c.input_grads.size() ? address(c.input_grads[k]) : nullptr);
    for (std::size_t k = 0; k < node.params.size(); ++k) {
      const Range slice = store.slice(node.params[k]);
      buffers.params.push_back(store.weights().data() + slice.begin);
      const int share = k < c.param_grads.size() ? c.param_grads[k] : no_storage;
      if (share != no_storage) buffers.param_grads.push_back(static_cast<float*>(address(share)));
      else if (options_.is_training) buffers.param_grads.push_back(gradients.data() + slice.begin);
    }
    for (int state : node.states) buffers.state.push_back(store.state(state).data());
    buffers.saved = address(c.saved);
    buffers.scratch = memory.scratch.data();
    c.op->bind(buffers);
    for (const Accumulation& a : c.accumulations) {
      void* to = a.param < 0 ? address(a.destination) : gradients.data() + store.slice(a.param).begin;
      c.bound_accumulations.push_back({to, address(a.source)});
    }
  }
  for (std::size_t i = static_cast<std::size_t>(first_read_outside()); i < ops_.size() && !network_.has_loss(); ++i)
    leaving_.push_back({ops_[i]->op->output(), address(ops_[i]->output), address(ops_[i]->output_grad)});
  output_ = address(ops_.back()->output);
  output_grad_ = options_.is_training ? address(ops_.back()->output_grad) : nullptr;
}

}  // namespace muster::model
