// One training step, in the words of a textbook:
//
//   forward   every micro-batch goes through the network, segment by segment; where the samples of the whole batch need
//             each other (batch norm) their sums are taken over all replicas before the next segment
//   loss      and its gradient with respect to the network's output, divided by the global number of samples
//   backward  the chain rule from the last layer to the first; a bucket of gradients is reduced over the replicas as
//   soon
//             as its last gradient is ready, while the backward pass goes on
//   update    every replica applies the same optimizer to the same summed gradient, so the weights stay equal; with
//             sharded state each updates its shard, and the shards are gathered
//
// In a pipeline a rank has one stage of the network: what enters it comes from the stage before, what leaves it goes to
// the next, gradients come and go the other way, and the schedule says which micro-batch is when
// (parallel/pipeline/schedule.hpp). Of one stage it says: forward and backward of each in turn.
//
// The same text serves one rank and many, one micro-batch and many.
#include <muster/train/step.hpp>

#include <muster/base/check.hpp>
#include <muster/base/error.hpp>

#include <algorithm>
#include <cmath>

namespace muster::train {
namespace {

// Control words behind the last gradient.
constexpr std::int64_t stop_word = 0;      // replicas that ask for a stop
constexpr std::int64_t bad_loss_word = 1;  // micro-batches whose loss is NaN or Inf

// Names of the waits, made once: the step allocates nothing.
const std::string statistics_sum = "sum of batch-norm statistics";
const std::string running_sum = "sum of running statistics";

/// Elements of the wave's message; a pipeline's wave is one micro-batch, which may have no rows.
std::int64_t message_of(const Wave* wave, std::int64_t (model::Program::*elements)() const) {
  return wave && wave->front().program ? (wave->front().program->*elements)() : 0;
}

}  // namespace

Step::Step(const StepParts& parts)
    : parts_(parts), make_progress_([this] {
        parts_.reducer.progress();
        parts_.stages.progress();
        if (parts_.between_ops) parts_.between_ops();
      }) {
  if (parts_.stages.stages() > 1) move_messages_ = [this] { parts_.stages.progress(); };
  const auto grains = static_cast<std::size_t>(parts_.plan.grains_of(parts_.plan.replica).size());
  deferred_.resize(grains * parts_.programs.lead().deferred_statistics().size());
  std::size_t width = 0;
  for (const auto& segment : parts_.programs.lead().forward_segments())
    width = std::max(width, segment.statistics.size());
  for (const auto& segment : parts_.programs.lead().backward_segments())
    width = std::max(width, segment.statistics.size());
  totals_.resize(width);
  grain_statistics_.resize(width * grains);
}

StepResult Step::run(const dataset::Batch& batch, std::int64_t step, double lr, bool requests_stop) {
  StepResult result = gradient(batch, step, requests_stop);
  if (result.is_finite) {
    update(step, lr, result);
    update_running_values(step, batch.position.rows);
  }
  return result;
}

StepResult Step::gradient(const dataset::Batch& batch, std::int64_t step, bool requests_stop) {
  StepResult result;
  requests_stop_ = requests_stop;
  BatchPlan& plan = parts_.programs.plan_for(batch.position.rows);
  begin(batch, plan, step);
  const double waited_s = parts_.stages.waited_s();
  for (const parallel::PipelineStep& work : plan.schedule) {
    Wave& wave = plan.waves[static_cast<std::size_t>(work.micro_batch)];
    const Wave* next = &wave == &plan.waves.back() ? nullptr : &wave + 1;
    if (work.is_forward) {
      load(batch, plan, wave, next);
      forward(wave);
      loss(wave, result);
    } else {
      backward(wave, next, next == nullptr);
    }
  }
  parts_.stages.finish();
  result.reduce = parts_.reducer.finish();
  if (parts_.tied)
    result.reduce.exposed_s +=
        parts_.tied->add_up(parts_.reducer.result().first(static_cast<std::size_t>(parts_.store.elements())));
  read_control_words(result);
  result.reduce.exposed_s += parts_.stages.waited_s() - waited_s;
  return result;
}

void Step::begin(const dataset::Batch& batch, BatchPlan& plan, std::int64_t step) {
  if (parts_.stages.reads_samples()) {
    MUSTER_CHECK_EQ(batch.rows.begin, plan.rows.begin);
    MUSTER_CHECK_EQ(batch.rows.end, plan.rows.end);
  }
  set_error_step(step);
  for (Wave& wave : plan.waves)
    for (MicroBatch& micro : wave) micro.context = {parts_.seed, step, micro.rows.begin, batch.position.rows};
  is_local_loss_finite_ = true;
  std::ranges::fill(deferred_, 0.0);
  parts_.reducer.begin_step(step);
}

void Step::load(const dataset::Batch& batch, const BatchPlan& plan, Wave& wave, const Wave* next) {
  const auto& programs = parts_.programs;
  for (MicroBatch& micro : wave) {
    if (!micro.program) continue;
    const std::int64_t row = micro.rows.begin - plan.rows.begin;
    const std::int64_t following = message_of(next, &model::Program::entering_elements);
    const float* inputs = parts_.stages.is_first()
                              ? batch.inputs + row * programs.input_elements()
                              : parts_.stages.values_in.take(micro.program->entering_elements(), following).data();
    const void* targets = nullptr;
    if (parts_.stages.is_last()) targets = static_cast<const std::byte*>(batch.targets) + row * programs.target_bytes();
    micro.program->load(inputs, targets);
  }
}

void Step::forward(Wave& wave) {
  const std::size_t segments = parts_.programs.lead().forward_segments().size();
  for (std::size_t s = 0; s < segments; ++s) {
    for (MicroBatch& micro : wave)
      if (micro.program) micro.program->forward(s, micro.context, move_messages_);
    sum_statistics(wave, &model::Program::forward_segments, s);
  }
  for (MicroBatch& micro : wave)
    if (micro.program) keep_deferred_statistics(micro);
  if (!parts_.stages.is_last()) send_values(wave);
}

void Step::loss(Wave& wave, StepResult& result) {
  for (MicroBatch& micro : wave) {
    if (!micro.program || !parts_.stages.is_last()) continue;
    const model::MicroBatchResult sums = micro.program->loss(micro.context);
    result.sums.rows += sums.rows;
    result.sums.loss_units += sums.loss_units;
    result.sums.correct += sums.correct;
    result.sums.top_k_correct += sums.top_k_correct;
    is_local_loss_finite_ = is_local_loss_finite_ && sums.is_finite;
  }
}

void Step::backward(Wave& wave, const Wave* next, bool is_last_wave) {
  if (!parts_.stages.is_last()) receive_gradients(wave, next);
  const auto& segments = parts_.programs.lead().backward_segments();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const bool is_last_segment = s + 1 == segments.size();
    for (MicroBatch& micro : wave) {
      if (micro.program) micro.program->backward(s, micro.context, make_progress_);
      add_gradient(micro, segments[s].gradients, is_last_segment);
    }
    Range bucket = segments[s].bucket;
    if (is_last_segment) bucket.end += control_elements;
    if (is_last_wave && !bucket.empty()) parts_.reducer.ready(bucket);
    sum_statistics(wave, &model::Program::backward_segments, s);
  }
  if (!parts_.stages.is_first()) send_gradients(wave);
}

void Step::update(std::int64_t step, double lr, StepResult& result) {
  const auto begin = static_cast<std::size_t>(parts_.shard.begin), size = static_cast<std::size_t>(parts_.shard.size());
  const std::span<const float> summed = parts_.tied ? parts_.tied->summed() : parts_.gradients.summed();
  const optim::UpdateContext context{lr, step + 1, result.grad_scale, parts_.threads};
  parts_.optimizer.update(context, parts_.store.weights().subspan(begin, size), summed.subspan(begin, size),
                          parts_.optimizer_state, parts_.runs);
  if (parts_.gather) result.reduce.exposed_s += parts_.gather->to_all(parts_.store.weights());
}

// ---- the small helpers of the above

void Step::send_values(Wave& wave) {
  for (MicroBatch& micro : wave) {
    if (!micro.program) continue;
    micro.program->read_leaving(parts_.stages.values_out.room(micro.program->leaving_elements()).data());
    parts_.stages.values_out.send();
  }
}

void Step::receive_gradients(Wave& wave, const Wave* next) {
  for (MicroBatch& micro : wave) {
    if (!micro.program) continue;
    const std::int64_t following = message_of(next, &model::Program::leaving_gradient_elements);
    micro.program->load_leaving_gradient(
        parts_.stages.gradients_in.take(micro.program->leaving_gradient_elements(), following).data());
  }
}

void Step::send_gradients(Wave& wave) {
  for (MicroBatch& micro : wave) {
    if (!micro.program) continue;
    const std::int64_t elements = micro.program->entering_gradient_elements();
    micro.program->read_entering_gradient(parts_.stages.gradients_out.room(elements).data());
    parts_.stages.gradients_out.send();
  }
}

/// Replaces the shares of a segment's statistics by their sums over the global batch, in all micro-batches of the wave
/// and in the lead program, which keeps them for the running values.
void Step::sum_statistics(Wave& wave, const std::vector<model::Segment>& (model::Program::*segments)() const,
                          std::size_t index) {
  const std::span<double> lead = (parts_.programs.lead().*segments)()[index].statistics;
  const std::size_t width = lead.size();
  if (width == 0) return;
  const auto statistics_of = [&](const MicroBatch& micro) { return (micro.program->*segments)()[index].statistics; };
  const std::span<double> shares = std::span(grain_statistics_).first(width * wave.size());
  for (std::size_t m = 0; m < wave.size(); ++m) {
    const auto row = shares.subspan(m * width, width);
    if (wave[m].program) std::ranges::copy(statistics_of(wave[m]), row.begin());
    else std::ranges::fill(row, 0.0);
  }
  const std::span<double> totals = std::span(totals_).first(width);
  parts_.statistics.sum(shares, totals, statistics_sum);
  for (MicroBatch& micro : wave)
    if (micro.program) std::ranges::copy(totals, statistics_of(micro).begin());
  std::ranges::copy(totals, lead.begin());
}

/// Adds what the segment has written for this micro-batch into the replica's partial sums.
void Step::add_gradient(const MicroBatch& micro, Range slice, bool is_last_segment) {
  const std::span<float> written = parts_.reducer.partial(0);
  if (micro.program) parts_.gradients.deliver(slice);
  else
    std::ranges::fill(written.subspan(static_cast<std::size_t>(slice.begin), static_cast<std::size_t>(slice.size())),
                      0.0f);
  if (is_last_segment) {
    write_control_words(micro);
    slice.end += control_elements;
  }
  if (!slice.empty()) parts_.accumulator.push(micro.grain, slice);
}

void Step::write_control_words(const MicroBatch& micro) {
  const auto elements = static_cast<std::size_t>(parts_.store.elements());
  const std::span<float> control = parts_.reducer.partial(0).subspan(elements, control_elements);
  std::ranges::fill(control, 0.0f);
  const bool is_first_grain = micro.grain == parts_.plan.grains_of(parts_.plan.replica).begin;
  control[stop_word] = is_first_grain && requests_stop_ ? 1.0f : 0.0f;
  control[bad_loss_word] = is_local_loss_finite_ ? 0.0f : 1.0f;
}

/// Of the summed gradient; what several stages hold is counted by the first.
double Step::squared_norm() const {
  const auto elements = static_cast<std::size_t>(parts_.store.elements());
  if (!parts_.tied) return optim::squared_norm(parts_.reducer.result().first(elements), parts_.threads);
  double norm = 0;
  for (const Range& range : parts_.tied->counted())
    norm += optim::squared_norm(
        parts_.tied->summed().subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size())),
        parts_.threads);
  return norm;
}

/// What all replicas said with their gradients, and all stages by themselves: whether to stop, whether the loss is bad,
/// and the norm of the whole gradient, by which clipping scales it.
void Step::read_control_words(StepResult& result) {
  const auto elements = static_cast<std::size_t>(parts_.store.elements());
  const std::span<const float> control = parts_.reducer.result().subspan(elements);
  parallel::StageSums all{0,
                          std::lround(control[stop_word]),
                          std::lround(control[bad_loss_word]),
                          result.sums.rows,
                          result.sums.loss_units,
                          result.sums.correct,
                          result.sums.top_k_correct};
  const bool is_clipped = parts_.clip_norm > 0 && control[bad_loss_word] == 0;
  if (is_clipped) all.squared_norm = squared_norm();
  parts_.stages.add_up(all);
  result.sums.rows = all.rows;
  result.sums.loss_units = all.loss_units;
  result.sums.correct = all.correct;
  result.sums.top_k_correct = all.top_k_correct;
  result.is_stop_requested = all.stop_requests > 0;
  result.is_finite = all.bad_losses == 0;
  if (!is_clipped || !result.is_finite) return;
  result.grad_norm = std::sqrt(all.squared_norm);
  result.grad_scale = optim::clip_scale(result.grad_norm, parts_.clip_norm);
}

/// Statistics that only the running values need: kept per grain when the micro-batch has run, summed once per step.
void Step::keep_deferred_statistics(const MicroBatch& micro) {
  const std::span<double> deferred = micro.program->deferred_statistics();
  const std::int64_t row = micro.grain - parts_.plan.grains_of(parts_.plan.replica).begin;
  std::ranges::copy(deferred, deferred_.begin() + row * static_cast<std::ptrdiff_t>(deferred.size()));
}

void Step::update_running_values(std::int64_t step, std::int64_t global_rows) {
  model::Program& lead = parts_.programs.lead();
  const std::span<double> sums = lead.deferred_statistics();
  if (!sums.empty()) parts_.statistics.sum(deferred_, sums, running_sum);
  lead.end_step({parts_.seed, step, 0, global_rows});
}

}  // namespace muster::train
