// Making and running a program. Where its buffers lie is decided in program_storage.cpp.
#include <muster/model/program.hpp>

#include "model/compiled.hpp"
#include "model/storage_plan.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace muster::model {

Program::Program(const Network& network, device::Backend& backend, const ProgramOptions& options,
                 const std::vector<device::TensorDesc>& fixed_params)
    : network_(network), backend_(backend), options_(options), param_descs_(network.params.size()) {
  MUSTER_CHECK(options_.rows > 0, "rows {}", options_.rows);
  for (const Shape& shape : network_.entering_shapes())
    inputs_.push_back({{shape.batched(options_.rows), DType::f32, nullptr}});
  for (std::size_t k = 0; k < network_.entering.size(); ++k)
    inputs_[k].wants_grad = options_.is_training && network_.entering[k].has_gradient;
  make_ops(fixed_params);
  plan_storage();
  if (!network_.has_loss()) return;
  loss_op_ = backend_.make_loss(network_.loss, ops_.back()->op->output(), options_.threads);
  host_row_loss_.resize(static_cast<std::size_t>(options_.rows));
  if (!ops_.back()->op->output().is_plain() || !backend_.has_host_memory())
    host_output_.resize(static_cast<std::size_t>(network_.output.elements() * options_.rows));
  host_targets_.resize(static_cast<std::size_t>(network_.targets_per_sample() * options_.rows));
  row_loss_ = backend_.allocate(host_row_loss_.size() * sizeof(float));
  targets_ = backend_.allocate(host_targets_.size() * sizeof(std::int32_t));
}

Program::~Program() = default;

void Program::make_ops(const std::vector<device::TensorDesc>& fixed_params) {
  std::vector<bool> needs_grad;  // per node: something before it, or itself, is trained
  for (const Node& node : network_.nodes) {
    auto compiled = std::make_unique<Compiled>();
    device::OpRequest request;
    request.spec = node.spec;
    bool is_trained = !node.params.empty();
    for (int source : node.inputs) {
      const bool wants = is_entering(source) ? inputs_[entering_index(source)].wants_grad
                                             : needs_grad[static_cast<std::size_t>(source)];
      request.inputs.push_back(is_entering(source) ? inputs_[entering_index(source)].desc
                                                   : ops_[static_cast<std::size_t>(source)]->op->output());
      request.wants_input_grad.push_back(wants && options_.is_training);
      is_trained = is_trained || wants;
    }
    const bool has_tied = std::any_of(node.params.begin(), node.params.end(), [&](int param) {
      return network_.is_tied(param) || !network_.params[static_cast<std::size_t>(param)].holders.empty();
    });
    for (int param : node.params) {
      const auto p = static_cast<std::size_t>(param);
      if (!fixed_params.empty()) request.fixed_params.push_back(fixed_params[p]);
      else if (has_tied) request.fixed_params.push_back({network_.params[p].shape, DType::f32, nullptr});
    }
    request.is_training = options_.is_training;
    request.is_deterministic = options_.is_deterministic;
    request.threads = options_.threads;
    try {
      compiled->op = backend_.make(request);
    } catch (const Error& error) {
      fail(error.code(), "{}: layer '{}': {}", node.where, node.name, error.what());
    }
    compiled->inputs = request.inputs;
    compiled->wants_input_grad = request.wants_input_grad;
    compiled->runs_backward = options_.is_training && is_trained;
    MUSTER_CHECK_EQ(compiled->op->params().size(), node.params.size());
    for (std::size_t i = 0; i < node.params.size(); ++i)
      param_descs_[static_cast<std::size_t>(node.params[i])] = compiled->op->params()[i];
    needs_grad.push_back(is_trained);
    ops_.push_back(std::move(compiled));
  }
}

void Program::bind(ParameterStore& store, std::span<float> gradients) {
  arena_ = backend_.allocate(std::max<std::size_t>(arena_bytes(), 64));
  scratch_ = backend_.allocate(scratch_bytes());
  const auto bytes_of = [](device::Buffer& buffer) {
    return std::span(static_cast<std::byte*>(buffer.data()), buffer.bytes());
  };
  bind(store, gradients, {bytes_of(*arena_), bytes_of(*scratch_)});
}

void Program::bind(ParameterStore& store, std::span<float> gradients, const ProgramMemory& memory) {
  MUSTER_CHECK(memory.arena.size() >= arena_bytes() && memory.scratch.size() >= scratch_bytes(),
               "memory of {} and {} bytes, needs {} and {}", memory.arena.size(), memory.scratch.size(), arena_bytes(),
               scratch_bytes());
  bind_buffers(store, gradients, memory);
  bind_statistics();
  plan_forward();
  if (options_.is_training) plan_backward(store);
}

std::int64_t Program::widest_statistics() const {
  std::int64_t widest = 0, deferred = 0;
  for (const auto& c : ops_) {
    const auto& traits = c->op->traits();
    widest = std::max({widest, traits.forward_statistics, traits.backward_statistics});
    deferred += traits.deferred_statistics;
  }
  return std::max(widest, deferred);
}

void Program::bind_statistics() {
  std::size_t total = 0, deferred = 0;
  for (const auto& c : ops_) {
    const auto& traits = c->op->traits();
    total += static_cast<std::size_t>(traits.forward_statistics + traits.backward_statistics);
    deferred += static_cast<std::size_t>(traits.deferred_statistics);
  }
  statistics_.assign(total + deferred, 0.0);
  deferred_ = std::span(statistics_).subspan(total, deferred);
  std::size_t at = 0, deferred_at = 0;
  const auto take = [](std::span<double> from, std::size_t& position, std::int64_t count) {
    const auto piece = from.subspan(position, static_cast<std::size_t>(count));
    position += static_cast<std::size_t>(count);
    return piece;
  };
  for (const auto& c : ops_) {
    const auto& traits = c->op->traits();
    const auto forward = take(statistics_, at, traits.forward_statistics);
    const auto backward = take(statistics_, at, traits.backward_statistics);
    c->op->bind_statistics(forward, backward, take(deferred_, deferred_at, traits.deferred_statistics));
    c->forward_statistics = forward;
    c->backward_statistics = backward;
  }
}

void Program::plan_forward() {
  std::size_t begin = 0;
  for (int node = 0; node < static_cast<int>(ops_.size()); ++node) {
    const Compiled& c = *ops_[static_cast<std::size_t>(node)];
    for (int phase = 0; phase < c.op->traits().forward_phases; ++phase) {
      forward_calls_.push_back({node, phase});
      if (phase + 1 < c.op->traits().forward_phases) {
        forward_segments_.push_back({begin, forward_calls_.size(), c.forward_statistics, {}, {}});
        begin = forward_calls_.size();
      }
    }
  }
  forward_segments_.push_back({begin, forward_calls_.size(), {}, {}, {}});
}

void Program::plan_backward(const ParameterStore& store) {
  std::size_t begin = 0;
  std::int64_t written = 0, announced = 0, finished = 0;
  const auto end_segment = [&](std::span<double> statistics, bool is_bucket) {
    backward_segments_.push_back({begin, backward_calls_.size(), statistics, {written, finished}, {}});
    begin = backward_calls_.size();
    written = finished;
    if (is_bucket) backward_segments_.back().bucket = {announced, finished};
    if (is_bucket) announced = finished;
  };
  for (int node = static_cast<int>(ops_.size()) - 1; node >= 0; --node) {
    const Compiled& c = *ops_[static_cast<std::size_t>(node)];
    if (!c.runs_backward) continue;
    const int phases = c.op->traits().backward_phases;
    for (int phase = 0; phase < phases; ++phase) {
      backward_calls_.push_back({node, phase});
      if (phase + 1 < phases) end_segment(c.backward_statistics, finished - announced >= options_.bucket_elements);
    }
    for (int param : network_.nodes[static_cast<std::size_t>(node)].params)
      if (network_.is_first_user(node, param)) finished = std::max(finished, store.slice(param).end);
    if (finished - announced >= options_.bucket_elements) end_segment({}, true);
  }
  finished = store.elements();
  end_segment({}, true);
}

void Program::load(const float* inputs, const void* targets) {
  for (const Input& input : inputs_) {
    backend_.copy_in(input.bound_value, inputs, input.desc.bytes());
    inputs += input.desc.shape.elements();
  }
  if (!targets) return;
  std::memcpy(host_targets_.data(), targets, host_targets_.size() * sizeof(std::int32_t));
  backend_.copy_in(targets_->data(), host_targets_.data(), host_targets_.size() * sizeof(std::int32_t));
}

void Program::forward(std::size_t segment, const device::RunContext& context, const std::function<void()>& after_op) {
  const Segment& s = forward_segments_[segment];
  for (std::size_t i = s.begin; i < s.end; ++i) {
    const Call call = forward_calls_[i];
    ops_[static_cast<std::size_t>(call.node)]->op->forward(call.phase, context);
    if (after_op) after_op();
  }
  finish_statistics(s);
}

/// The caller reads a segment's statistics next.
void Program::finish_statistics(const Segment& segment) {
  if (!segment.statistics.empty()) backend_.synchronize();
}

void Program::backward(std::size_t segment, const device::RunContext& context, const std::function<void()>& after_op) {
  const Segment& s = backward_segments_[segment];
  for (std::size_t i = s.begin; i < s.end; ++i) {
    const Call call = backward_calls_[i];
    Compiled& c = *ops_[static_cast<std::size_t>(call.node)];
    if (call.phase == 0 && c.bound_copy.destination)
      backend_.copy(c.bound_copy.destination, c.bound_copy.source, c.op->output().bytes());
    c.op->backward(call.phase, context);
    if (call.phase + 1 == c.op->traits().backward_phases)
      for (std::size_t a = 0; a < c.accumulations.size(); ++a)
        backend_.accumulate(c.bound_accumulations[a].destination, c.bound_accumulations[a].source,
                            c.accumulations[a].desc);
    after_op();
  }
  finish_statistics(s);
}

namespace {

/// Adds to `result` how often the right class is the largest, or among the k largest, of each row. Ties count against.
void count_correct(const float* rows, const std::int32_t* labels, std::int64_t count, std::int64_t classes, int top_k,
                   MicroBatchResult& result) {
  for (std::int64_t r = 0; r < count; ++r) {
    const float* row = rows + r * classes;
    const float right = row[labels[r]];
    std::int64_t not_smaller = 0;  // others at least as large; NaN anywhere makes the row wrong
    for (std::int64_t c = 0; c < classes; ++c) not_smaller += c != labels[r] && !(row[c] < right);
    result.correct += not_smaller == 0;
    result.top_k_correct += not_smaller < top_k;
  }
}

}  // namespace

MicroBatchResult Program::loss(const device::RunContext& context) {
  loss_op_->run(output_, targets_->data(), static_cast<float*>(row_loss_->data()), output_grad_, context);
  backend_.copy_out(host_row_loss_.data(), row_loss_->data(), host_row_loss_.size() * sizeof(float));
  MicroBatchResult result;
  result.rows = options_.rows;
  for (float loss : host_row_loss_) {
    const bool is_fine = std::abs(static_cast<double>(loss)) < loss_limit;
    result.is_finite = result.is_finite && is_fine;
    if (is_fine) result.loss_units += std::llround(static_cast<double>(loss) / loss_unit);
  }
  if (network_.loss.kind == device::LossSpec::Kind::softmax_cross_entropy) {
    const float* rows = static_cast<const float*>(output_);
    if (!host_output_.empty()) {
      read_output(host_output_.data());
      rows = host_output_.data();
    }
    count_correct(rows, host_targets_.data(), options_.rows * network_.targets_per_sample(), network_.classes(),
                  network_.top_k, result);
  }
  return result;
}

void Program::end_step(const device::RunContext& context) {
  for (const auto& c : ops_) c->op->end_step(context);
}

void Program::read_output(float* plain) { backend_.to_plain(ops_.back()->op->output(), output_, plain); }

std::vector<std::string> Program::describe() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const auto& output = ops_[i]->op->output();
    lines.push_back(fmt::format("{:<40} {:<12} {:<28} {}", network_.nodes[i].name,
                                device::name_of(network_.nodes[i].spec), ops_[i]->op->implementation(),
                                output.is_plain() ? "plain" : output.layout->describe()));
  }
  return lines;
}

}  // namespace muster::model
