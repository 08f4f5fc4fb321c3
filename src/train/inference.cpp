#include <muster/train/inference.hpp>

#include <algorithm>

namespace muster::train {

Inference::Inference(const Config& config, const model::Network& network, device::Backend& backend,
                     model::ParameterStore& store, int threads)
    : config_(config), network_(network), backend_(backend), store_(store), threads_(threads) {}

std::unique_ptr<dataset::BatchQueue> Inference::open(std::unique_ptr<dataset::Dataset> data, int rank,
                                                     int ranks) const {
  const std::int64_t unit = config_.data.test_batch > 0 ? config_.data.test_batch : config_.data.batch;
  dataset::QueueOptions options;
  options.seed = config_.run.seed;
  options.batch = unit * ranks;
  options.last_sample = data->size();
  options.depth = config_.data.prefetch;
  options.is_training = false;
  options.check_finite = config_.data.check_finite;
  options.transforms = config_.data.transforms;
  options.rows_of = [unit, rank](std::int64_t rows) {
    return Range{std::min(rank * unit, rows), std::min((rank + 1) * unit, rows)};
  };
  return std::make_unique<dataset::BatchQueue>(std::move(data), options);
}

device::RunContext Inference::context_of(const dataset::Batch& batch) const {
  return {config_.run.seed, 0, batch.rows.begin, batch.rows.size()};
}

model::Program& Inference::forward(const dataset::Batch& batch) {
  parallel::StageLinks alone;
  return forward(batch, alone);
}

model::Program& Inference::forward(const dataset::Batch& batch, parallel::StageLinks& stages) {
  model::Program& one = program(batch.rows.size());
  const float* inputs = batch.inputs;
  if (!stages.is_first()) inputs = stages.values_in.take(one.entering_elements(), 0).data();
  one.load(inputs, stages.is_last() ? batch.targets : nullptr);
  for (std::size_t s = 0; s < one.forward_segments().size(); ++s) one.forward(s, context_of(batch));
  if (stages.is_last()) return one;
  one.read_leaving(stages.values_out.room(one.leaving_elements()).data());
  stages.values_out.send();
  return one;
}

model::Program& Inference::program(std::int64_t rows) {
  auto& slot = programs_[rows];
  if (!slot) {
    model::ProgramOptions options;
    options.rows = rows;
    options.is_training = false;
    options.is_deterministic = config_.run.reproducible == "bitwise";
    options.threads = threads_;
    slot = std::make_unique<model::Program>(network_, backend_, options, store_.descs());
    slot->bind(store_, {});
  }
  return *slot;
}

}  // namespace muster::train
