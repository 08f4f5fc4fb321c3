// The way of a recorded run: for every update in order
//
//   its rank   assembles the weights that the worker had pulled, shard by shard from the versions it saw, and computes
//              the gradient of the batch (before its turn, as soon as those versions are there)
//   all ranks  receive it and make the next version, as a server did
//
// Versions are kept as long as an update to come was computed at them.
#include <muster/train/replay.hpp>

#include "train/async.hpp"
#include "train/record.hpp"
#include "train/update_rate.hpp"

#include <muster/base/check.hpp>
#include <muster/base/log.hpp>
#include <muster/train/checkpoint.hpp>
#include <muster/train/state.hpp>
#include <muster/train/together.hpp>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>

namespace muster::train {
namespace {

/// Parameters followed by running values.
using Version = std::vector<float>;

struct Gradient {
  std::vector<float> values;  ///< parameters, then the new running values
  double scale = 1;           ///< clipping
};

class Replay {
 public:
  Replay(comm::Session& session, const config::Loaded& loaded, Record record);
  ExitCode run(const std::filesystem::path& directory);

 private:
  Replica& replica_for(const RecordedUpdate& update);
  void keep_uses();
  Version pulled(const RecordedUpdate& update);
  void compute_ahead(std::int64_t index);
  Gradient compute(const RecordedUpdate& update);
  void share(std::int64_t index, Gradient& gradient);
  void apply(const RecordedUpdate& update, const Gradient& gradient);
  void compare(const CheckpointState& saved);
  std::int64_t first_version() const { return record_.first_version; }

  comm::Communicator& world_;
  const config::Loaded& loaded_;
  Record record_;
  std::unique_ptr<comm::Communicator> alone_;
  RunData data_;
  std::unique_ptr<TrainableModel> model_;  ///< the newest version
  std::unique_ptr<optim::Schedule> schedule_;
  std::map<std::int64_t, Config> configs_;                     ///< by grains
  std::map<std::int64_t, std::unique_ptr<Replica>> replicas_;  ///< by grains; 0: as of a single worker
  std::unique_ptr<dataset::BatchQueue> queue_;
  std::map<std::int64_t, Version> versions_;
  std::map<std::int64_t, std::int64_t> last_use_;  ///< index of the last update computed at a version
  std::int64_t parameters_ = 0, running_ = 0;
  std::int64_t next_own_ = 0;                  ///< index of this rank's next gradient
  std::map<std::int64_t, Gradient> computed_;  ///< by index
};

Replay::Replay(comm::Session& session, const config::Loaded& loaded, Record record)
    : world_(session.world()), loaded_(loaded), record_(std::move(record)), next_own_(world_.rank()) {
  const Config& config = loaded_.config;
  const int threads = static_cast<int>(record_.threads);
  session.set_deadline(config.run.deadline_s);
  alone_ = world_.split(world_.rank(), 0, "alone");
  together(world_, "opening the data", [&] { data_ = open_run_data(config, 1, world_.rank() == 0); });
  together(world_, "assembling the network", [&] {
    model_ = std::make_unique<TrainableModel>(config, parallel::GridPlace{}, data_.size, threads);
    model_->store->initialise(config.run.seed);
    if (!config.model.weights.empty()) load_start_weights(config.model.weights, *model_);
    schedule_ = std::make_unique<optim::Schedule>(config.schedule, data_.total_steps,
                                                  static_cast<double>(data_.steps_per_epoch));
  });
  parameters_ = model_->store->elements();
  running_ = running_elements(model_->network);
}

/// A share's bits depend on how the batch was cut into grains, not on who computed them: one replica computes them all.
Replica& Replay::replica_for(const RecordedUpdate& update) {
  const Config& config = loaded_.config;
  const bool is_cut = update.workers.size() > 1 && config.run.reproducible != "bitwise";
  const std::int64_t grains = is_cut ? update.grains : 0;
  auto& replica = replicas_[grains];
  if (replica) return *replica;
  Config& own = configs_.emplace(grains, config).first->second;
  if (is_cut) own.run.accumulate = grains;
  ReplicaLinks links = links_over(own, *alone_, model_->threads);
  links.layouts = model_->store->descs();
  replica = std::make_unique<Replica>(own, links, data_.size, model_->threads);
  return *replica;
}

void Replay::keep_uses() {
  for (std::size_t i = 0; i < record_.updates.size(); ++i)
    for (std::int64_t base : record_.updates[i].bases) last_use_[base] = static_cast<std::int64_t>(i);
}

Version Replay::pulled(const RecordedUpdate& update) {
  const parallel::Shards shards = cut_model(loaded_.config, *model_, static_cast<int>(update.bases.size()));
  Version whole(static_cast<std::size_t>(parameters_ + running_));
  for (std::size_t s = 0; s < shards.ranges.size(); ++s) {
    const auto from = versions_.find(update.bases[s]);
    MUSTER_CHECK(from != versions_.end(), "version {} is gone", update.bases[s]);
    const auto begin = static_cast<std::ptrdiff_t>(shards.ranges[s].begin);
    const auto end = static_cast<std::ptrdiff_t>(shards.ranges[s].end);
    std::copy(from->second.begin() + begin, from->second.begin() + end, whole.begin() + begin);
  }
  return whole;
}

/// This rank's next gradient, if what it was computed at is there; `index`: of the update that all are at.
void Replay::compute_ahead(std::int64_t index) {
  while (next_own_ < index) next_own_ += world_.size();
  if (next_own_ >= static_cast<std::int64_t>(record_.updates.size()) || computed_.contains(next_own_)) return;
  const RecordedUpdate& update = record_.updates[static_cast<std::size_t>(next_own_)];
  if (std::ranges::max(update.bases) > first_version() + index) return;
  computed_.emplace(next_own_, compute(update));
}

Gradient Replay::compute(const RecordedUpdate& update) {
  Replica& replica = replica_for(update);
  const dataset::Batch* batch = queue_->next();
  MUSTER_CHECK(batch != nullptr, "no batch for step {}", update.batch);
  const Version whole = pulled(update);
  const auto cut = whole.begin() + static_cast<std::ptrdiff_t>(parameters_);
  std::copy(whole.begin(), cut, replica.store->weights().begin());
  set_running(*replica.store, {cut, whole.end()});
  const StepResult result = replica.step->gradient(*batch, update.batch, false);
  replica.step->update_running_values(update.batch, batch->position.rows);
  Gradient gradient;
  const auto sum = replica.reducer->result().first(static_cast<std::size_t>(parameters_));
  gradient.values.assign(sum.begin(), sum.end());
  gradient.values.resize(whole.size());
  copy_running(*replica.store, std::span(gradient.values).subspan(static_cast<std::size_t>(parameters_)));
  gradient.scale = result.grad_scale;
  return gradient;
}

void Replay::share(std::int64_t index, Gradient& gradient) {
  const int owner = static_cast<int>(index % world_.size());
  gradient.values.resize(static_cast<std::size_t>(parameters_ + running_));
  world_.broadcast(comm::bytes_of(std::span(gradient.values)), owner, "gradient");
  world_.broadcast(comm::bytes_of(std::span(&gradient.scale, 1)), owner, "scale of a gradient");
}

void Replay::apply(const RecordedUpdate& update, const Gradient& gradient) {
  const std::int64_t before = update.version - 1;
  const double lr = update_rate(loaded_.config, *schedule_, before, before - std::ranges::min(update.bases));
  const std::span<const float> values = gradient.values;
  const auto parameters = static_cast<std::size_t>(parameters_);
  model_->optimizer->update({lr, before + 1, gradient.scale, model_->threads}, model_->store->weights(),
                            values.first(parameters), model_->optimizer_state, model_->runs);
  set_running(*model_->store, values.subspan(parameters));
}

void Replay::compare(const CheckpointState& saved) {
  const CheckpointState mine = gather_state(*model_);
  const auto check = [&](const std::vector<NamedTensor>& theirs, const std::vector<NamedTensor>& ours) {
    MUSTER_CHECK_EQ(theirs.size(), ours.size());
    for (const NamedTensor& tensor : ours) {
      const auto other = std::ranges::find(theirs, tensor.name, &NamedTensor::name);
      MUSTER_CHECK(other != theirs.end() && other->shape == tensor.shape, "no {} in the checkpoint", tensor.name);
      for (std::size_t i = 0; i < tensor.values.size(); ++i)
        if (std::bit_cast<std::uint32_t>(tensor.values[i]) != std::bit_cast<std::uint32_t>(other->values[i]))
          fail(ExitCode::internal,
               "the replay of step {} differs from its checkpoint: element {} of {} is {} here and {} there; either an "
               "update was lost, torn or applied twice, or this machine computes differently",
               saved.step, i, tensor.name, tensor.values[i], other->values[i]);
    }
  };
  check(saved.weights, mine.weights);
  check(saved.optimizer, mine.optimizer);
}

ExitCode Replay::run(const std::filesystem::path& directory) {
  std::map<std::int64_t, std::filesystem::path> checkpoints;
  together(world_, "reading the checkpoints", [&] {
    for (const auto& folder : list_checkpoints(directory)) checkpoints[load_checkpoint(folder).step] = folder;
    if (checkpoints.empty()) fail(ExitCode::checkpoint, "{}: no checkpoint to compare with", directory.string());
    const std::int64_t last = checkpoints.rbegin()->first - first_version();
    if (last > static_cast<std::int64_t>(record_.updates.size()) || last < 0)
      fail(ExitCode::usage, "{}: the record has updates {} to {}, the newest checkpoint is of step {}",
           directory.string(), first_version() + 1, first_version() + static_cast<std::int64_t>(record_.updates.size()),
           checkpoints.rbegin()->first);
    if (first_version() != 0)
      fail(ExitCode::usage, "{}: the record begins at step {}; the run was not recorded from its beginning",
           directory.string(), first_version());
    record_.updates.resize(static_cast<std::size_t>(last));
  });
  keep_uses();
  dataset::QueueOptions options = queue_options(loaded_.config);
  options.rows_of = [](std::int64_t rows) { return Range{0, rows}; };
  queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_.train), options);
  const auto updates = static_cast<std::int64_t>(record_.updates.size());
  const std::int64_t batch = loaded_.config.data.batch;
  for (std::int64_t i = world_.rank(); i < updates; i += world_.size()) {
    const std::int64_t step = record_.updates[static_cast<std::size_t>(i)].batch;
    queue_->order({data_.counter_of(step, batch), data_.counter_of(step + 1, batch)});
  }
  for (std::int64_t i = 0; i < updates; ++i) {
    const RecordedUpdate& update = record_.updates[static_cast<std::size_t>(i)];
    Version& now = versions_[update.version - 1];
    now.resize(static_cast<std::size_t>(parameters_ + running_));
    std::ranges::copy(model_->store->weights(), now.begin());
    copy_running(*model_->store, std::span(now).subspan(static_cast<std::size_t>(parameters_)));
    compute_ahead(i);
    Gradient gradient;
    if (computed_.contains(i)) gradient = std::move(computed_.extract(i).mapped());
    share(i, gradient);
    apply(update, gradient);
    std::erase_if(versions_,
                  [&](const auto& kept) { return !last_use_.contains(kept.first) || last_use_[kept.first] <= i; });
    if (const auto saved = checkpoints.find(update.version); saved != checkpoints.end())
      together(world_, "comparing with a checkpoint", [&] { compare(load_checkpoint(saved->second)); });
  }
  for (auto& [grains, replica] : replicas_) replica->close();
  if (world_.rank() == 0)
    log::info("replayed    {} updates; {} checkpoint{} equal to the bit, the last of step {}", updates,
              checkpoints.size(), checkpoints.size() == 1 ? "" : "s", checkpoints.rbegin()->first);
  return ExitCode::done;
}

}  // namespace

ExitCode replay(comm::Session& session, const std::string& run, const std::vector<std::string>& sets) {
  const std::filesystem::path directory(run);
  config::Loaded loaded;
  Record record;
  together(session.world(), "opening the run", [&] {
    if (!std::filesystem::exists(directory / "config.yaml"))
      fail(ExitCode::usage, "{}: expected the directory of a run, found no config.yaml in it; muster train makes one",
           run);
    loaded = config::load((directory / "config.yaml").string(), {sets, false});
    record = read_record(directory);
  });
  Replay again(session, loaded, std::move(record));
  return again.run(directory);
}

}  // namespace muster::train
