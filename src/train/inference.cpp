#include <muster/train/inference.hpp>

#include <algorithm>

namespace muster::train {

std::int64_t test_batch_rows(const Config& config) {
  if (config.data.test_batch > 0) return config.data.test_batch;
  const std::int64_t parts = std::max<std::int64_t>(config.run.accumulate, 1);
  return std::max<std::int64_t>((config.data.batch + parts - 1) / parts, 1);
}

Inference::Inference(const Config& config, const model::Network& network, device::Backend& backend,
                     model::ParameterStore& store, int threads)
    : config_(config), network_(network), backend_(backend), store_(store), threads_(threads) {}

std::unique_ptr<dataset::BatchQueue> Inference::open(std::unique_ptr<dataset::Dataset> data, int rank, int ranks,
                                                     const parallel::StageLinks& stages) const {
  const std::int64_t unit = test_batch_rows(config_);
  dataset::QueueOptions options;
  options.seed = config_.run.seed;
  options.batch = unit * ranks;
  options.last_sample = data->size();
  options.depth = config_.data.prefetch;
  options.is_training = false;
  options.reads_inputs = stages.is_first();
  options.reads_targets = stages.is_last();
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

void Inference::prepare(std::int64_t samples, const model::ProgramMemory& lent) {
  const std::int64_t rows = test_batch_rows(config_);
  std::size_t arena_bytes = 64, scratch_bytes = 64;
  for (std::int64_t size : {samples >= rows ? rows : 0, samples % rows}) {
    if (size == 0) continue;
    auto& slot = programs_[size] = make(size);
    arena_bytes = std::max(arena_bytes, slot->arena_bytes());
    scratch_bytes = std::max(scratch_bytes, slot->scratch_bytes());
  }
  const auto room = [&](std::span<std::byte> there, std::size_t bytes, std::unique_ptr<device::Buffer>& own) {
    if (there.size() >= bytes) return there;
    own = backend_.allocate(bytes);
    return std::span(static_cast<std::byte*>(own->data()), own->bytes());
  };
  const model::ProgramMemory memory{room(lent.arena, arena_bytes, arena_), room(lent.scratch, scratch_bytes, scratch_)};
  for (const auto& [size, program] : programs_) program->bind(store_, {}, memory);
}

std::unique_ptr<model::Program> Inference::make(std::int64_t rows) const {
  model::ProgramOptions options;
  options.rows = rows;
  options.is_training = false;
  options.is_deterministic = config_.run.reproducible == "bitwise";
  options.threads = threads_;
  return std::make_unique<model::Program>(network_, backend_, options, store_.descs());
}

model::Program& Inference::program(std::int64_t rows) {
  auto& slot = programs_[rows];
  if (!slot) {
    slot = make(rows);
    slot->bind(store_, {});
  }
  return *slot;
}

}  // namespace muster::train
