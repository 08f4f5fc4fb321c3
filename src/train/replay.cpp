// The way of a recorded run: for every update in order
//
//   its rank   assembles the weights that the worker had pulled, shard by shard from the versions it saw, and computes
//              the gradient of the batch (before its turn, as soon as those versions are there)
//   all ranks  receive it and make the next version, as a server did
//
// Where workers pushed changes made by their own optimizers (local_steps.hpp), a worker's are all computed by the same
// rank, in order, since the optimizer's state goes on from one to the next.
// Versions are kept as long as an update to come was computed at them.
#include <muster/train/replay.hpp>

#include "train/async.hpp"
#include "train/local_steps.hpp"
#include "train/record.hpp"
#include "train/update_rate.hpp"

#include <muster/base/check.hpp>
#include <muster/base/log.hpp>
#include <muster/optim/delay.hpp>
#include <muster/parallel/server/client.hpp>
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
  std::vector<float> values;  ///< parameters' (or the change of them), then the new running values
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
  int owner_of(std::int64_t index) const;
  bool is_own(std::int64_t index) const { return owner_of(index) == world_.rank(); }
  void order_own();
  std::int64_t updates_until(const std::filesystem::path& directory, std::int64_t step) const;
  void compute_ahead(std::int64_t index);
  const dataset::Batch& next_batch(std::int64_t step);
  Gradient compute(const RecordedUpdate& update);
  void compute_change(const RecordedUpdate& update, Replica& replica, const Version& whole, std::span<float> change);
  void share(std::int64_t index, Gradient& gradient);
  void apply(const RecordedUpdate& update, Gradient& gradient);
  void compare(const CheckpointState& saved);
  std::int64_t updates() const { return static_cast<std::int64_t>(record_.updates.size()); }
  const RecordedUpdate& update(std::int64_t index) const { return record_.updates[static_cast<std::size_t>(index)]; }
  bool has_local_steps() const { return loaded_.config.parallel.has_local_steps(); }

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
  std::map<std::int64_t, LocalState> local_;   ///< by worker
  std::unique_ptr<optim::Optimizer> change_optimizer_ = make_change_optimizer();
};

Replay::Replay(comm::Session& session, const config::Loaded& loaded, Record record)
    : world_(session.world()), loaded_(loaded), record_(std::move(record)) {
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
  own.parallel.wire = "fp32";  // a push is rounded when it is whole
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

/// The rank that computes an update.
int Replay::owner_of(std::int64_t index) const {
  return static_cast<int>((has_local_steps() ? update(index).workers.front() : index) % world_.size());
}

/// This rank's batches, in the order in which it will ask for them.
void Replay::order_own() {
  const std::int64_t size = loaded_.config.data.batch;
  for (std::int64_t i = 0; i < updates(); ++i)
    for (std::int64_t step = update(i).batch; is_own(i) && step < update(i).batch + update(i).batches; ++step)
      queue_->order({data_.counter_of(step, size), data_.counter_of(step + 1, size)});
}

/// This rank's next gradient, if what it was computed at is there; `index`: of the update that all are at.
void Replay::compute_ahead(std::int64_t index) {
  while (next_own_ < updates() && (next_own_ < index || !is_own(next_own_))) ++next_own_;
  if (next_own_ == updates() || computed_.contains(next_own_)) return;
  const RecordedUpdate& own = update(next_own_);
  if (!std::ranges::all_of(own.bases, [&](std::int64_t base) { return versions_.contains(base); })) return;
  computed_.emplace(next_own_, compute(own));
}

const dataset::Batch& Replay::next_batch(std::int64_t step) {
  const dataset::Batch* batch = queue_->next();
  MUSTER_CHECK(batch != nullptr, "no batch for step {}", step);
  return *batch;
}

Gradient Replay::compute(const RecordedUpdate& update) {
  Replica& replica = replica_for(update);
  const Version whole = pulled(update);
  const auto cut = whole.begin() + static_cast<std::ptrdiff_t>(parameters_);
  std::copy(whole.begin(), cut, replica.store->weights().begin());
  set_running(*replica.store, {cut, whole.end()});
  Gradient gradient;
  gradient.values.resize(whole.size());
  const std::span<float> trained = std::span(gradient.values).first(static_cast<std::size_t>(parameters_));
  if (has_local_steps()) {
    compute_change(update, replica, whole, trained);
  } else {
    const dataset::Batch& batch = next_batch(update.batch);
    const StepResult result = replica.step->gradient(batch, update.batch, false);
    replica.step->update_running_values(update.batch, batch.position.rows);
    std::ranges::copy(replica.reducer->result().first(trained.size()), trained.begin());
    gradient.scale = result.grad_scale;
  }
  if (loaded_.config.parallel.wire == "bf16") parallel::round_as_pushed(trained);
  copy_running(*replica.store, std::span(gradient.values).subspan(trained.size()));
  return gradient;
}

void Replay::compute_change(const RecordedUpdate& update, Replica& replica, const Version& whole,
                            std::span<float> change) {
  const double elastic = loaded_.config.parallel.elastic;
  LocalState& state = local_.try_emplace(update.workers.front(), replica, elastic).first->second;
  if (update.is_fresh) state.clear();
  start_push(replica, state, std::span(whole).first(change.size()), std::span(whole).subspan(change.size()));
  for (std::int64_t step = update.batch; step < update.batch + update.batches; ++step)
    make_local_step(replica, next_batch(step), step, scheduled_rate(loaded_.config, *schedule_, step), state);
  finish_push(replica, state, std::span(whole).first(change.size()), elastic, change);
}

void Replay::share(std::int64_t index, Gradient& gradient) {
  const int owner = owner_of(index);
  gradient.values.resize(static_cast<std::size_t>(parameters_ + running_));
  world_.broadcast(comm::bytes_of(std::span(gradient.values)), owner, "gradient");
  world_.broadcast(comm::bytes_of(std::span(&gradient.scale, 1)), owner, "scale of a gradient");
}

void Replay::apply(const RecordedUpdate& update, Gradient& gradient) {
  const std::int64_t before = update.version - 1;
  const std::int64_t staleness = before - std::ranges::min(update.bases);
  const double lr = update_rate(loaded_.config, *schedule_, before, staleness);
  const double compensation = staleness > 0 ? loaded_.config.parallel.delay_compensation : 0;
  const auto parameters = static_cast<std::size_t>(parameters_);
  const std::span<float> values = gradient.values;
  const std::span<float> trained = values.first(parameters);
  if (compensation > 0) {
    const Version then = pulled(update);
    optim::compensate_delay(trained, gradient.scale, compensation, model_->store->weights(),
                            std::span(then).first(parameters), trained);
    gradient.scale = 1;
  }
  const optim::UpdateContext context{lr, before + 1, gradient.scale, model_->threads};
  if (has_local_steps()) change_optimizer_->update(context, model_->store->weights(), trained, {}, model_->runs);
  else model_->optimizer->update(context, model_->store->weights(), trained, model_->optimizer_state, model_->runs);
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

/// How many of the recorded updates lead to the checkpoint of a step.
std::int64_t Replay::updates_until(const std::filesystem::path& directory, std::int64_t step) const {
  if (step == record_.first_step) return 0;
  const auto found = std::ranges::find(record_.updates, step, &RecordedUpdate::steps);
  if (found == record_.updates.end())
    fail(ExitCode::usage, "{}: the record has updates {} to {}, the newest checkpoint is of step {}",
         directory.string(), record_.first_step + 1, record_.updates.empty() ? 0 : record_.updates.back().steps, step);
  return found - record_.updates.begin() + 1;
}

ExitCode Replay::run(const std::filesystem::path& directory) {
  std::map<std::int64_t, std::filesystem::path> checkpoints;
  together(world_, "reading the checkpoints", [&] {
    for (const auto& folder : list_checkpoints(directory)) checkpoints[load_checkpoint(folder).step] = folder;
    if (checkpoints.empty()) fail(ExitCode::checkpoint, "{}: no checkpoint to compare with", directory.string());
    if (record_.first_step != 0)
      fail(ExitCode::usage, "{}: the record begins at step {}; the run was not recorded from its beginning",
           directory.string(), record_.first_step);
    record_.updates.resize(static_cast<std::size_t>(updates_until(directory, checkpoints.rbegin()->first)));
  });
  keep_uses();
  dataset::QueueOptions options = queue_options(loaded_.config);
  options.rows_of = [](std::int64_t rows) { return Range{0, rows}; };
  queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_.train), options);
  order_own();
  for (std::int64_t i = 0; i < updates(); ++i) {
    const RecordedUpdate& made = update(i);
    Version& now = versions_[made.version - 1];
    now.resize(static_cast<std::size_t>(parameters_ + running_));
    std::ranges::copy(model_->store->weights(), now.begin());
    copy_running(*model_->store, std::span(now).subspan(static_cast<std::size_t>(parameters_)));
    compute_ahead(i);
    Gradient gradient;
    if (computed_.contains(i)) gradient = std::move(computed_.extract(i).mapped());
    share(i, gradient);
    apply(made, gradient);
    std::erase_if(versions_,
                  [&](const auto& kept) { return !last_use_.contains(kept.first) || last_use_[kept.first] <= i; });
    if (const auto saved = checkpoints.find(made.steps); saved != checkpoints.end())
      together(world_, "comparing with a checkpoint", [&] { compare(load_checkpoint(saved->second)); });
  }
  for (auto& [grains, replica] : replicas_) replica->close();
  if (world_.rank() == 0)
    log::info("replayed    {} updates; {} checkpoint{} equal to the bit, the last of step {}", updates(),
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
