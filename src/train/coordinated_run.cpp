// Rank 0 of the parameter-server strategy: while it keeps its shard and coordinates (parallel/server), it looks after
// the run as loop.cpp does for the synchronous strategies: the log, the metrics, the audit of every epoch, evaluations
// and checkpoints at one version while the workers go on, the end.
#include "train/async_audit.hpp"
#include "train/async_interval.hpp"
#include "train/async_start.hpp"
#include "train/record.hpp"
#include "train/server.hpp"
#include "train/update_rate.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/log.hpp>
#include <muster/base/pause.hpp>
#include <muster/base/text.hpp>
#include <muster/parallel/server/coordinator.hpp>
#include <muster/train/audit.hpp>
#include <muster/train/metrics.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/state.hpp>
#include <muster/train/stop_watcher.hpp>
#include <muster/train/together.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>

namespace muster::train {
namespace {

class CoordinatedRun {
 public:
  CoordinatedRun(ServerRank& server, RunData& data);
  ExitCode run();

 private:
  ExitCode tell_stop();
  void look();
  void take(const parallel::Applied& update);
  void tell(const parallel::Attendance& event);
  void tell(const parallel::Evaluated& result);
  void report();
  void use_snapshot();
  void start_save(const parallel::Snapshot& snapshot);
  bool is_over();
  void end();
  [[noreturn]] void diverged(const std::string& how);
  [[noreturn]] void deserted() const;
  /// The steps after `before`, up to `now`, have a multiple of `every` among them.
  static bool is_due(std::int64_t every, std::int64_t before, std::int64_t now) {
    return every > 0 && now / every > before / every;
  }
  /// Batches applied: the versions made, but where several batches make one.
  std::int64_t steps() const { return book_.applied(); }
  double epoch_of(std::int64_t step) const {
    return static_cast<double>(data_.counter_of(step, config_.data.batch)) / static_cast<double>(data_.size);
  }

  ServerRank& server_;
  AsyncJob& job_;
  const Config& config_;
  RunData& data_;
  std::int64_t first_open_;
  parallel::LeaseBook book_;
  optim::Schedule schedule_;
  parallel::Coordinator coordinator_;
  AsyncAudit audit_;
  MetricsWriter metrics_;
  RecordWriter record_;
  AsyncInterval interval_;
  double lr_ = 0, last_loss_ = 0;
  std::int64_t step_ = 0;  // batches applied with the update that was looked at last
  std::int64_t first_step_, evaluated_step_ = -1, saved_step_ = -1;
  std::int64_t last_save_, last_evaluation_;  // steps, the run's first included
  bool is_stopping_ = false, has_stepped_ = false;
  bool is_deserted_ = false;  // no worker was left at some moment: what the servers hold is saved
  bool is_evaluating_ = false;
  bool has_snapshot_request_ = false;
  std::future<void> saving_;
  Stopwatch busy_;  // since the save or the evaluation under way began
  StopWatcher stop_watcher_;
};

parallel::LeaseOptions lease_options(const Config& config) {
  const bool is_unbounded = config.parallel.staleness == parallel::unbounded;
  return {is_unbounded ? 0 : config.parallel.staleness, is_unbounded, config.parallel.longest_lease,
          config.parallel.push_every};
}

CoordinatedRun::CoordinatedRun(ServerRank& server, RunData& data)
    : server_(server),
      job_(server.job),
      config_(server.job.config()),
      data_(data),
      first_open_(job_.first_step - static_cast<std::int64_t>(job_.done_beyond.size())),
      book_({first_open_, std::max(data.total_steps, first_open_)}, job_.done_beyond, job_.roles.workers,
            lease_options(config_)),
      schedule_(config_.schedule, data.total_steps, static_cast<double>(data.steps_per_epoch)),
      coordinator_(*job_.window, job_.roles, job_.shards, job_.sizes, *server.shard, book_,
                   [this](std::int64_t version, std::int64_t staleness) {
                     return lr_ = update_rate(config_, schedule_, version, staleness);
                   },
                   {config_.parallel.heartbeat_deadline_s,
                    [this](std::int64_t before, std::int64_t now) {
                      return is_due(data_.eval_steps, before, now) || is_due(data_.checkpoint_steps, before, now);
                    },
                    job_.lock_step_until(),
                    [this](int shares) { return grain_plan(config_, server_.model.network, shares, 0).grains; },
                    config_.optimizer.clip_norm, config_.parallel.delay_compensation}),
      audit_(config_, data, first_open_, job_.done_beyond),
      metrics_(std::filesystem::path(config_.run.directory) / "metrics.jsonl",
               job_.flags.is_resumed ? job_.first_step : -1, config_.log.tensorboard),
      first_step_(job_.first_step),
      last_save_(job_.first_step),
      last_evaluation_(job_.first_step),
      stop_watcher_(config_.run.directory, end_of_time_s(config_.run.wall_time),
                    guessed_save_s(state_bytes(server.model)), job_.flags.is_resumed) {
  interval_.by_worker.resize(static_cast<std::size_t>(job_.roles.workers));
  step_ = job_.first_step;
  if (job_.flags.is_resumed) saved_step_ = job_.first_step;
  if (config_.parallel.record)
    record_ = RecordWriter(config_.run.directory, job_.first_step, job_.flags.is_resumed, job_.threads());
  if (metrics_.has_evaluation()) evaluated_step_ = job_.first_step;
}

ExitCode CoordinatedRun::run() {
  tell_start(server_, data_, first_step_);
  interval_.watch.restart();
  Stopwatch idle;
  while (!is_over()) {
    const std::int64_t before = steps();
    look();
    use_snapshot();
    if (steps() != before) idle.restart();
    else pass_time(idle.elapsed_s());
  }
  if (interval_.updates > 0) report();
  end();
  if (is_deserted_) deserted();
  if (is_stopping_) return tell_stop();
  log::info("done        {} steps, run in {}", steps(), config_.run.directory);
  return ExitCode::done;
}

/// A signal to a worker reaches only that worker, which passes on the wish: then there is no reason here.
ExitCode CoordinatedRun::tell_stop() {
  const StopReason reason = coordinator_.wants_stop() ? std::max(stop_reason(), StopReason::signal) : stop_reason();
  const ExitCode code = reason == StopReason::file ? ExitCode::done : ExitCode::requeue;
  log::info("stopped     {} after step {}, state saved; go on with --resume (exit code {})", describe_stop(reason),
            steps(), static_cast<int>(code));
  if (reason == StopReason::file) stop_watcher_.remove_stop_file();
  return code;
}

/// One round of the coordinator, and what came of it.
void CoordinatedRun::look() {
  coordinator_.poll();
  for (const parallel::Attendance& event : coordinator_.attendance()) tell(event);
  for (const parallel::Applied& update : coordinator_.applied()) take(update);
  if (coordinator_.evaluated()) tell(*coordinator_.evaluated());
  is_deserted_ = is_deserted_ || coordinator_.is_deserted();
  if (!is_stopping_ && (is_stop_requested() || coordinator_.wants_stop() || is_deserted_)) {
    is_stopping_ = true;
    coordinator_.stop_granting();
  }
}

void CoordinatedRun::take(const parallel::Applied& update) {
  if (!update.is_finite) diverged(fmt::format("the loss of batch {} is NaN or Inf", update.batch));
  set_error_step(update.steps);
  step_ = update.steps;
  if (job_.has_local_steps()) lr_ = scheduled_rate(config_, schedule_, update.batch + update.batches - 1);
  interval_.add(update);
  stop_watcher_.stepped(update.compute_s);  // leases are cut so that each lasts about as long as the slowest's batch
  record_.write(update);
  audit_.add(update);
  if (!has_stepped_) log::info("first step  after {}", human_seconds(since_process_start_s()));
  has_stepped_ = true;
  if (is_due(data_.log_steps, update.steps - update.batches, update.steps) || update.steps == data_.total_steps)
    report();
}

void CoordinatedRun::tell(const parallel::Attendance& event) {
  const int rank = job_.roles.rank_of_worker(event.worker);
  if (event.is_back) log::warn("worker {} (rank {} on {}) is back", event.worker, rank, job_.world().host(rank));
  else
    log::warn("worker {} (rank {} on {}) is gone: silent for {:.1f} s; its batches go to others, {} of {} workers left",
              event.worker, rank, job_.world().host(rank), event.silent_s, coordinator_.live(), job_.roles.workers);
}

void CoordinatedRun::tell(const parallel::Evaluated& result) {
  is_evaluating_ = false;
  stop_watcher_.evaluated(busy_.elapsed_s());
  if (result.rows == 0) return;  // cut short by a stop
  evaluated_step_ = result.steps;
  const auto rows = static_cast<double>(result.rows);
  const double loss = static_cast<double>(result.loss_units) * model::loss_unit / rows;
  const double labels = rows * static_cast<double>(server_.model.network.targets_per_sample());
  if (!result.is_finite) diverged("the loss on the test split is NaN or Inf");
  std::string line = fmt::format("test        step {}  loss {:.5f}", result.steps, loss);
  MetricsLine metrics{{"step", result.steps},
                      {"epoch", epoch_of(result.steps)},
                      {"split", std::string("test")},
                      {"samples", result.rows},
                      {"loss", loss}};
  if (data_.has_labels) {
    line += fmt::format("  accuracy {:.2f} %", 100 * static_cast<double>(result.correct) / labels);
    metrics.emplace_back("accuracy", static_cast<double>(result.correct) / labels);
  }
  if (server_.model.network.top_k > 0)
    metrics.emplace_back("top_k_accuracy", static_cast<double>(result.top_k_correct) / labels);
  log::info("{}  (worker {})", line, result.worker);
  metrics_.write(metrics);
}

void CoordinatedRun::report() {
  const double seconds = std::max(interval_.watch.elapsed_s(), 1e-9);
  const auto rows = static_cast<double>(std::max<std::int64_t>(interval_.rows, 1));
  const double labels = rows * static_cast<double>(server_.model.network.targets_per_sample());
  last_loss_ = static_cast<double>(interval_.loss_units) * model::loss_unit / rows;
  const double epoch = epoch_of(step_);
  std::string line =
      fmt::format("step {:>7}/{}  epoch {:6.2f}  loss {:.5f}", step_, data_.total_steps, epoch, last_loss_);
  if (data_.has_labels)
    line += fmt::format("  accuracy {:5.2f} %", 100 * static_cast<double>(interval_.correct) / labels);
  line += fmt::format("  lr {:.3g}  {:.0f} samples/s  staleness p50 {} max {}  shares {} %", lr_,
                      static_cast<double>(interval_.rows) / seconds, interval_.median_staleness(),
                      interval_.largest_staleness(), interval_.shares());
  if (coordinator_.lost() > 0) line += fmt::format("  gone {}", coordinator_.lost());
  log::info("{}", line);
  std::vector<std::string> histogram;
  for (const auto& [value, count] : interval_.staleness) histogram.push_back(fmt::format("{}:{}", value, count));
  MetricsLine metrics{{"step", step_},
                      {"epoch", epoch},
                      {"samples", data_.counter_of(step_, config_.data.batch)},
                      {"loss", last_loss_},
                      {"lr", lr_},
                      {"samples_per_s", static_cast<double>(interval_.rows) / seconds},
                      {"updates_per_s", static_cast<double>(interval_.updates) / seconds},
                      {"staleness_p50", interval_.median_staleness()},
                      {"staleness_max", interval_.largest_staleness()},
                      {"staleness_histogram", join(histogram, " ")},
                      {"worker_shares", interval_.shares()},
                      {"workers_gone", static_cast<std::int64_t>(coordinator_.lost())}};
  if (data_.has_labels) metrics.emplace_back("accuracy", static_cast<double>(interval_.correct) / labels);
  if (data_.has_labels && server_.model.network.top_k > 0)
    metrics.emplace_back("top_k_accuracy", static_cast<double>(interval_.top_k_correct) / labels);
  metrics_.write(metrics);
  interval_ = AsyncInterval{};
  interval_.by_worker.resize(static_cast<std::size_t>(job_.roles.workers));
  if (config_.run.max_loss > 0 && !(last_loss_ <= config_.run.max_loss))
    diverged(fmt::format("the mean loss {} of the last interval is above run.max_loss {}", last_loss_,
                         config_.run.max_loss));
}

/// A snapshot, once every server holds it, is evaluated by a worker and written by a thread beside the coordinator;
/// then its place is free for the next.
void CoordinatedRun::use_snapshot() {
  if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    saving_.get();
    stop_watcher_.saved(busy_.elapsed_s());
  }
  if (is_evaluating_ || saving_.valid()) return;
  const std::optional<parallel::Snapshot> snapshot = coordinator_.snapshot();
  if (!snapshot) return;
  has_snapshot_request_ = false;
  const bool is_final = snapshot->steps() == steps() && (book_.is_done() || is_stopping_);
  const bool saves =
      snapshot->steps() != saved_step_ && (is_final || is_due(data_.checkpoint_steps, last_save_, snapshot->steps()));
  const bool evaluates = data_.has_test && snapshot->steps() != evaluated_step_ && !is_stopping_ &&
                         (is_final || is_due(data_.eval_steps, last_evaluation_, snapshot->steps()));
  if (saves) {
    last_save_ = snapshot->steps();
    start_save(*snapshot);
  } else if (evaluates) {
    last_evaluation_ = snapshot->steps();
    is_evaluating_ = true;
    busy_.restart();
    coordinator_.evaluate_snapshot();
  } else {
    coordinator_.release_snapshot();
  }
}

void CoordinatedRun::start_save(const parallel::Snapshot& snapshot) {
  busy_.restart();
  TrainableModel& model = server_.model;
  std::vector<float> running(static_cast<std::size_t>(job_.shards.running));
  for (int s = 0; s < job_.roles.servers; ++s) {
    const Range range = job_.shards.ranges[static_cast<std::size_t>(s)];
    std::vector<float> part(static_cast<std::size_t>(range.size()));
    for (std::size_t k = 0; k <= static_cast<std::size_t>(job_.sizes.optimizer_slots); ++k) {
      coordinator_.read_snapshot(s, static_cast<int>(k), part);
      const std::span<float> arena = k == 0 ? model.store->weights() : model.optimizer_state[k - 1];
      for (std::int64_t i = 0; i < range.size(); ++i) {
        const std::int64_t at = range.begin + i;
        if (at < job_.shards.parameters) arena[static_cast<std::size_t>(at)] = part[static_cast<std::size_t>(i)];
        else if (k == 0)
          running[static_cast<std::size_t>(at - job_.shards.parameters)] = part[static_cast<std::size_t>(i)];
      }
    }
  }
  set_running(*model.store, running);
  for (float w : model.store->weights())
    if (!std::isfinite(w)) diverged("a weight is NaN or Inf");
  CheckpointState state;
  state.step = snapshot.steps();
  state.sample_counter = data_.counter_of(snapshot.first_open, config_.data.batch);
  state.epoch = state.sample_counter / data_.size;
  state.done_beyond = snapshot.committed_beyond;
  state.sample_order = sample_order(config_, data_);
  for (std::int64_t step = data_.first_step_of_epoch(snapshot.first_open); step < snapshot.first_open; ++step) {
    const auto sums = index_sums_of_step(config_, data_, step);
    for (std::size_t i = 0; i < 3; ++i) state.audit[i] += static_cast<std::int64_t>(sums[i]);
  }
  saved_step_ = snapshot.steps();
  saving_ = std::async(std::launch::async, [this, state = std::move(state)]() mutable {
    CheckpointState tensors = gather_state(server_.model);
    state.weights = std::move(tensors.weights);
    state.optimizer = std::move(tensors.optimizer);
    save_checkpoint(config_.run.directory, state, config_.checkpoint.keep);
  });
}

/// All batches are in (or a stop has drained the leases) and the last version is evaluated and saved.
bool CoordinatedRun::is_over() {
  if (!book_.is_done() && !is_stopping_) return false;
  if (!coordinator_.is_idle() || saving_.valid() || is_evaluating_) return false;
  const bool is_saved = saved_step_ == steps();
  const bool is_evaluated = !data_.has_test || is_stopping_ || evaluated_step_ == steps();
  if (is_saved && is_evaluated) return true;
  if (!has_snapshot_request_) {
    coordinator_.request_snapshot();
    has_snapshot_request_ = true;
  }
  return false;
}

void CoordinatedRun::end() {
  if (job_.lifeline) job_.lifeline->say_farewell();
  coordinator_.end();
  if (coordinator_.lost() > 0) job_.session.set_ranks_lost();
}

void CoordinatedRun::diverged(const std::string& how) {
  if (saving_.valid()) saving_.wait();
  end();
  const std::string saved =
      saved_step_ >= 0 ? fmt::format("the checkpoint of step {} is good", saved_step_) : "no checkpoint was written";
  throw AgreedError(
      ExitCode::diverged,
      fmt::format("diverged at step {}: {}; {}; try a lower optimizer.lr, a smaller parallel.staleness, a "
                  "warm-up or optimizer.clip_norm",
                  steps(), how, saved));
}

void CoordinatedRun::deserted() const {
  throw AgreedError(ExitCode::comm,
                    fmt::format("lost the last worker: all {} are silent (parallel.heartbeat_deadline_s: {:g}); the "
                                "state of step {} is saved, go on with --resume",
                                job_.roles.workers, config_.parallel.heartbeat_deadline_s, steps()));
}

}  // namespace

ExitCode coordinate(ServerRank& server, RunData& data) {
  CoordinatedRun run(server, data);
  return run.run();
}

}  // namespace muster::train
