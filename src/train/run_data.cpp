#include "train/run_data.hpp"

#include <muster/base/error.hpp>
#include <muster/model/network.hpp>
#include <muster/train/audit.hpp>

#include <algorithm>
#include <cmath>

namespace muster::train {
namespace {

std::int64_t interval_steps(const Every& every, std::int64_t steps_per_epoch) {
  if (every.steps > 0) return every.steps;
  if (every.epochs > 0)
    return std::max<std::int64_t>(std::llround(every.epochs * static_cast<double>(steps_per_epoch)), 1);
  return 0;
}

void open_splits(const Config& config, int replicas, bool checks_labels, RunData& run) {
  run.train = dataset::open_train(config.data, config.run.seed);
  dataset::Dataset& data = *run.train;
  run.size = data.size();
  if (run.size < replicas)
    fail(ExitCode::data, "{}: {} samples for {} ranks: expected at least one per rank; start fewer ranks",
         data.describe(), run.size, replicas);
  if (config.data.batch > run.size)
    fail(ExitCode::data, "data.batch: expected at most the {} samples of {}, found {}", run.size, data.describe(),
         config.data.batch);
  if (data.input_shape() != config.model.input)
    fail(ExitCode::data, "{}: samples have shape {}, model.input says {}", data.describe(), data.input_shape().text(),
         config.model.input.text());
  const auto network = model::build_network(config.model);
  run.has_labels = network.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  if (run.has_labels && checks_labels) dataset::check_labels(data, network.classes());
  if (run.has_labels && data.target_shape().elements() != network.targets_per_sample())
    fail(ExitCode::data, "{}: {} labels per sample, but the network's output {} needs {}", data.describe(),
         data.target_shape().elements(), network.output.text(), network.targets_per_sample());
  if (!run.has_labels && data.target_shape().elements() != network.output.elements())
    fail(ExitCode::data, "{}: targets have shape {}, the network's output is {}", data.describe(),
         data.target_shape().text(), network.output.text());
  const bool is_binary = network.loss.kind == device::LossSpec::Kind::binary_cross_entropy;
  if (!run.has_labels && checks_labels) dataset::check_targets(data, is_binary);
  const auto test = dataset::open_test(config.data, config.run.seed);
  if (!test) return;
  run.has_test = true;
  run.test_size = test->size();
  if (run.has_labels && checks_labels) dataset::check_labels(*test, network.classes());
  if (!run.has_labels && checks_labels) dataset::check_targets(*test, is_binary);
  if (test->input_shape() != data.input_shape())
    fail(ExitCode::data, "{}: samples have shape {}, those of the training split {}", test->describe(),
         test->input_shape().text(), data.input_shape().text());
}

}  // namespace

RunData open_run_data(const Config& config, int replicas, bool checks_labels) {
  RunData run;
  open_splits(config, replicas, checks_labels, run);
  run.steps_per_epoch = dataset::steps_per_epoch(run.size, config.data.batch);
  run.total_steps = config.run.steps > 0 ? config.run.steps : config.run.epochs * run.steps_per_epoch;
  run.total_samples = run.counter_of(run.total_steps, config.data.batch);
  run.log_steps = interval_steps(config.log.every, run.steps_per_epoch);
  run.eval_steps = run.has_test ? interval_steps(config.eval.every, run.steps_per_epoch) : 0;
  run.checkpoint_steps = interval_steps(config.checkpoint.every, run.steps_per_epoch);
  return run;
}

std::array<std::uint64_t, 3> index_sums_of_step(const Config& config, const RunData& data, std::int64_t step) {
  const dataset::Permutation order(config.run.seed, step / data.steps_per_epoch, data.size, config.data.shuffle);
  const dataset::BatchPosition batch =
      dataset::batch_at(data.counter_of(step, config.data.batch), data.size, config.data.batch);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < batch.rows; ++i) indices.push_back(order(batch.first + i));
  return index_sums(indices);
}

std::string sample_order(const Config& config, const RunData& data) {
  const auto& shuffle = config.data.shuffle;
  std::string kind = "none";
  if (shuffle.kind == dataset::ShuffleOptions::Kind::full) kind = "full";
  if (shuffle.kind == dataset::ShuffleOptions::Kind::block)
    kind = fmt::format("blocks of {}, window {}", shuffle.block, shuffle.window);
  return fmt::format("seed {}, batch {}, {} samples, shuffle {}", config.run.seed, config.data.batch, data.size, kind);
}

void check_same_run(const CheckpointState& state, const Config& config, const RunData& data) {
  const std::string now = sample_order(config, data);
  if (state.sample_order != now)
    fail(
        ExitCode::usage,
        "the checkpoint of step {} belongs to another order of samples ({}), the config says {}: run.seed, data.batch, "
        "data.shuffle and the training split cannot change on a resume; start a new run",
        state.step, state.sample_order, now);
  if (state.step > data.total_steps)
    fail(ExitCode::usage,
         "the checkpoint is of step {}, beyond the run's end at step {}; raise run.steps or run.epochs", state.step,
         data.total_steps);
}

dataset::QueueOptions queue_options(const Config& config) {
  dataset::QueueOptions options;
  options.seed = config.run.seed;
  options.batch = config.data.batch;
  options.depth = config.data.prefetch;
  options.check_finite = config.data.check_finite;
  options.shuffle = config.data.shuffle;
  options.transforms = config.data.transforms;
  return options;
}

}  // namespace muster::train
