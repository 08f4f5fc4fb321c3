// The run around the step: start-up checks, resume, the loop over batches, intervals, evaluations, checkpoints, the
// end. Everything that may fail on one rank only goes through together(), so all ranks end alike.
#include <muster/train/loop.hpp>

#include "train/async.hpp"
#include "train/run_data.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/batch_queue.hpp>
#include <muster/train/assemble.hpp>
#include <muster/train/audit.hpp>
#include <muster/train/evaluate.hpp>
#include <muster/train/meter.hpp>
#include <muster/train/metrics.hpp>
#include <muster/train/run_directory.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/state.hpp>
#include <muster/train/stop_watcher.hpp>
#include <muster/train/together.hpp>

#include <cmath>

namespace muster::train {
namespace {

class Run {
 public:
  Run(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags)
      : session_(session), world_(session.world()), loaded_(loaded), config_(loaded.config), flags_(flags) {}

  ExitCode train() {
    start();
    if (is_resumed_before_evaluation()) evaluate();
    while (const dataset::Batch* batch = queue_->next()) {
      run_step(*batch);
      if (is_due(data_.log_steps) || step_ == data_.total_steps) report();
      if (is_due(data_.eval_steps) && step_ != data_.total_steps) evaluate();
      if (is_stopping_) return stop();
      if (is_due(data_.checkpoint_steps) && step_ != data_.total_steps) save();
    }
    return finish();
  }

 private:
  void start();
  void restore();
  void describe();
  void run_step(const dataset::Batch& batch);
  void report();
  void show_progress(const StepResult& result);
  void evaluate();
  void check_weights();
  CheckpointState gather();
  void save();
  ExitCode stop();
  ExitCode finish();
  [[noreturn]] void diverged(const std::string& how);
  /// The run was stopped while it evaluated the step it goes on from.
  bool is_resumed_before_evaluation() const {
    return step_ > 0 && is_due(data_.eval_steps) && step_ != data_.total_steps && evaluated_step_ != step_;
  }
  bool is_rank_0() const { return world_.rank() == 0; }
  bool is_due(std::int64_t steps) const { return steps > 0 && step_ % steps == 0; }
  std::filesystem::path directory() const { return config_.run.directory; }

  comm::Session& session_;
  comm::Communicator& world_;
  const config::Loaded& loaded_;
  const Config& config_;
  TrainFlags flags_;

  OpenRun open_run_;  // on rank 0
  RunData data_;
  std::unique_ptr<parallel::Grid> grid_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<optim::Schedule> schedule_;
  std::unique_ptr<Evaluator> evaluator_;
  std::size_t evaluation_bytes_ = 0;
  std::unique_ptr<dataset::BatchQueue> queue_;
  MetricsWriter metrics_;
  EpochAudit audit_;
  Meter meter_;
  std::int64_t step_ = 0, sample_counter_ = 0, saved_step_ = -1, evaluated_step_ = -1;
  double base_lr_ = 0, lr_ = 0, last_loss_ = 0;
  bool is_stopping_ = false, has_stepped_ = false;
  std::int64_t first_step_ = 0;
  double last_progress_s_ = 0;
  Stopwatch run_watch_;
  std::unique_ptr<StopWatcher> stop_watcher_;  // on rank 0
};

void Run::start() {
  session_.set_deadline(config_.run.deadline_s);
  const int threads = thread_count(config_, session_.launch().cores_per_rank());
  together(world_, "launch check", [&] {
    if (const auto problems = config::check_ranks(config_, world_.size()); !problems.empty())
      throw Error(ExitCode::usage, join(problems, "\n"));
    comm::check_launch(session_, threads, config_.parallel.allow_oversubscribe);
  });
  const parallel::GridPlace place = parallel::place_in_grid(config_.parallel, world_.size(), world_.rank());
  together(world_, "opening the data", [&] { data_ = open_run_data(config_, place.replicas, is_rank_0()); });
  if (place.stages > 1)  // before ranks talk in parts of the job: what cannot be cut is refused by all
    together(world_, "cutting the network",
             [&] { model::cut_stages(model::build_network(config_.model), place.stages); });
  grid_ = std::make_unique<parallel::Grid>(world_, config_.parallel);
  together(world_, "assembling the network", [&] {
    replica_ = std::make_unique<Replica>(config_, links_over(config_, *grid_, threads), data_.size, threads);
    schedule_ = std::make_unique<optim::Schedule>(config_.schedule, data_.total_steps,
                                                  static_cast<double>(data_.steps_per_epoch));
  });
  replica_->store->initialise(config_.run.seed);
  if (!config_.model.weights.empty() && !flags_.is_resumed)
    together(world_, "start weights", [&] { load_start_weights(config_.model.weights, *replica_); });
  together(world_, "run directory", [&] {
    if (!is_rank_0()) return;
    open_run_ = open_run_directory(directory(), flags_.is_resumed, flags_.is_forced);
    log::open_file(directory() / "log.txt");
  });
  if (flags_.is_resumed) together(world_, "resume", [&] { restore(); });
  together(world_, "effective config", [&] {  // only now: a resume that is refused leaves the run as it was
    if (is_rank_0()) write_file_atomic(directory() / "config.yaml", loaded_.effective_yaml);
  });
  together(world_, "metrics file", [&] {
    if (is_rank_0())
      metrics_ = MetricsWriter(directory() / "metrics.jsonl", flags_.is_resumed ? step_ : -1, config_.log.tensorboard);
  });
  std::int64_t has_evaluation = metrics_.has_evaluation() ? 1 : 0;
  world_.all_reduce(std::span(&has_evaluation, 1), comm::Reduction::max, "evaluations so far");
  if (has_evaluation != 0) evaluated_step_ = step_;
  base_lr_ = config_.optimizer.lr * optim::lr_scaling_factor(config_.parallel.lr_scaling, place.replicas);
  evaluator_ = std::make_unique<Evaluator>(config_, replica_->network, *replica_->backend, *replica_->store, world_,
                                           *grid_, replica_->threads);
  together(world_, "compiling the evaluation", [&] {
    if (data_.has_test) evaluation_bytes_ = evaluator_->prepare(data_.test_size, replica_->programs->idle_memory());
  });

  dataset::QueueOptions options = queue_options(config_);
  options.first_sample = sample_counter_;
  options.last_sample = data_.total_samples;
  options.reads_inputs = grid_->links().is_first();
  options.reads_targets = grid_->links().is_last();
  options.rows_of = [plan = replica_->plan, reads = grid_->links().reads_samples()](std::int64_t rows) {
    return reads ? plan.rows_of_replica(plan.replica, rows) : Range{};
  };
  together(world_, "input queue",
           [&] { queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_.train), options); });
  together(world_, "wall time", [&] {
    if (!is_rank_0()) return;
    stop_watcher_ = std::make_unique<StopWatcher>(directory(), end_of_time_s(config_.run.wall_time),
                                                  guessed_save_s(state_bytes(*replica_) * grid_->place().stages),
                                                  flags_.is_resumed);
  });
  describe();
  first_step_ = step_;
  run_watch_.restart();
}

void Run::restore() {
  const CheckpointState state = load_newest_checkpoint(directory());
  if (!state.done_beyond.empty())
    fail(ExitCode::checkpoint,
         "the checkpoint of step {} was made in the middle of an asynchronous epoch ({} steps are done out of order); "
         "resume it with parallel.strategy: parameter_server",
         state.step, state.done_beyond.size());
  check_same_run(state, config_, data_);
  restore_state(state, *replica_);
  step_ = saved_step_ = state.step;
  sample_counter_ = state.sample_counter;
  audit_ = EpochAudit(state.audit, grid_->data().rank() == 0);
  meter_.carry_on(state.interval);
}

void Run::describe() {
  const MemoryUse memory = largest_use(world_, replica_->memory(evaluation_bytes_));
  log::info("run         {} in {}", config_.run.name, directory().string());
  for (const std::string& line : loaded_.table) log::info("config      {}", line);
  log::info("ranks       {} on {}, {} mode", world_.size(), world_.is_one_node() ? world_.host(0) : "several hosts",
            config_.run.reproducible);
  for (const std::string& line : replica_->describe(memory)) log::info("{}", line);
  if (!config_.model.weights.empty() && step_ == 0) log::info("weights     from {}", config_.model.weights);
  log::info("data        {}", queue_->dataset().describe());
  log::info("length      {} steps, {} per epoch{}", data_.total_steps, data_.steps_per_epoch,
            step_ > 0 ? fmt::format(", resumed at step {}", step_) : "");
}

void Run::run_step(const dataset::Batch& batch) {
  lr_ = base_lr_ * schedule_->factor(step_);
  const Stopwatch watch;
  const StepResult result = replica_->step->run(batch, step_, lr_, is_stop_requested());
  if (!result.is_finite) diverged("the loss is NaN or Inf");
  audit_.add(batch.indices);
  meter_.add(result, watch.elapsed_s());
  if (stop_watcher_) stop_watcher_->stepped(watch.elapsed_s());
  ++step_;
  sample_counter_ += batch.position.rows;
  is_stopping_ = result.is_stop_requested;
  if (sample_counter_ % data_.size == 0 && grid_->links().reads_samples())
    audit_.finish_epoch(grid_->data(), batch.position.epoch, data_.size);
  if (!has_stepped_) {
    log::info("first step  after {}", human_seconds(since_process_start_s()));
    has_stepped_ = true;
  }
  show_progress(result);
}

/// The live line of a terminal, a few times a second; the loss is that of this rank's rows.
void Run::show_progress(const StepResult& result) {
  constexpr double interval_s = 0.2;
  if (!log::is_terminal() || now_s() - last_progress_s_ < interval_s) return;
  last_progress_s_ = now_s();
  const double rows = static_cast<double>(std::max<std::int64_t>(result.sums.rows, 1));
  constexpr std::int64_t width = 30;
  const auto filled = static_cast<std::size_t>(width * step_ / std::max<std::int64_t>(data_.total_steps, 1));
  const double rate = static_cast<double>(step_ - first_step_) / std::max(run_watch_.elapsed_s(), 1e-9);
  log::write_progress(
      fmt::format("[{}{}] {}/{}  loss {:.4f}  {:.1f} steps/s  {} left", std::string(filled, '='),
                  std::string(static_cast<std::size_t>(width) - filled, ' '), step_, data_.total_steps,
                  static_cast<double>(result.sums.loss_units) * model::loss_unit / rows, rate,
                  human_seconds(static_cast<double>(data_.total_steps - step_) / std::max(rate, 1e-9))));
}

void Run::report() {
  const Interval interval = meter_.finish(grid_->data(), world_, queue_->stall_s(), replica_->statistics->waited_s(),
                                          replica_->network.targets_per_sample());
  last_loss_ = interval.loss;
  check_weights();
  const double epoch = static_cast<double>(sample_counter_) / static_cast<double>(data_.size);
  std::string line =
      fmt::format("step {:>7}/{}  epoch {:6.2f}  loss {:.5f}", step_, data_.total_steps, epoch, interval.loss);
  if (data_.has_labels) line += fmt::format("  accuracy {:5.2f} %", 100 * interval.accuracy);
  line += fmt::format("  lr {:.3g}  {:.0f} samples/s  exposed comm {:.1f} %  input stall {:.1f} %", lr_,
                      interval.samples_per_s, 100 * interval.exposed_comm, 100 * interval.stall);
  log::info("{}", line);
  MetricsLine metrics{{"step", step_},
                      {"epoch", epoch},
                      {"samples", sample_counter_},
                      {"loss", interval.loss},
                      {"lr", lr_},
                      {"samples_per_s", interval.samples_per_s},
                      {"exposed_comm", interval.exposed_comm},
                      {"input_stall", interval.stall},
                      {"step_ms_p20", interval.step_ms_p20},
                      {"step_ms_median", interval.step_ms_median}};
  if (data_.has_labels) metrics.emplace_back("accuracy", interval.accuracy);
  if (data_.has_labels && replica_->network.top_k > 0) metrics.emplace_back("top_k_accuracy", interval.top_k_accuracy);
  if (config_.optimizer.clip_norm > 0) metrics.emplace_back("grad_norm", interval.grad_norm);
  metrics_.write(metrics);
  if (config_.run.max_loss > 0 && !(interval.loss <= config_.run.max_loss))
    diverged(fmt::format("the mean loss {} of the last {} steps is above run.max_loss {}", interval.loss,
                         interval.steps, config_.run.max_loss));
}

/// A NaN may hide behind a relu and leave the loss finite: the weights themselves tell. They are equal on all replicas,
/// so all ranks come to the same verdict; stages have different ones.
void Run::check_weights() {
  std::int64_t are_bad = replica_->store->are_weights_finite() ? 0 : 1;
  if (comm::Communicator* stages = grid_->replica())
    stages->all_reduce(std::span(&are_bad, 1), comm::Reduction::max, "check of the weights");
  if (are_bad != 0) diverged("a weight is NaN or Inf");
}

/// Collective where the state is in parts; rank 0 gets it whole.
CheckpointState Run::gather() {
  const std::vector<std::vector<float>> gathered = replica_->gather_optimizer_state();
  const std::vector<std::span<const float>> optimizer_state(gathered.begin(), gathered.end());
  if (grid_->data().rank() != 0) return {};
  CheckpointState state = replica_->is_sharded() ? gather_state(*replica_, optimizer_state) : gather_state(*replica_);
  if (comm::Communicator* stages = grid_->replica()) return gather_stages(std::move(state), *replica_, *stages);
  return state;
}

void Run::evaluate() {
  const EvalResult result = evaluator_->run(false);
  if (result.is_stopped) {
    is_stopping_ = true;
    return;
  }
  evaluated_step_ = step_;
  if (!result.is_finite) diverged("the loss on the test split is NaN or Inf");
  std::string line = fmt::format("test        step {}  loss {:.5f}", step_, result.loss);
  if (data_.has_labels) line += fmt::format("  accuracy {:.2f} %", 100 * result.accuracy);
  if (replica_->network.top_k > 0)
    line += fmt::format("  top-{} {:.2f} %", replica_->network.top_k, 100 * result.top_k_accuracy);
  log::info("{}", line);
  MetricsLine metrics{{"step", step_},
                      {"epoch", static_cast<double>(sample_counter_) / static_cast<double>(data_.size)},
                      {"split", std::string("test")},
                      {"samples", result.samples},
                      {"loss", result.loss}};
  if (data_.has_labels) metrics.emplace_back("accuracy", result.accuracy);
  if (replica_->network.top_k > 0) metrics.emplace_back("top_k_accuracy", result.top_k_accuracy);
  metrics_.write(metrics);
}

void Run::save() {
  const Stopwatch watch;
  check_weights();
  const auto audit = audit_.total(grid_->data());
  const auto interval = meter_.totals(grid_->data());
  CheckpointState state = gather();
  together(world_, "checkpoint", [&] {
    if (!is_rank_0()) return;
    state.step = step_;
    state.sample_counter = sample_counter_;
    state.epoch = sample_counter_ / data_.size;
    state.audit = audit;
    state.interval = interval;
    state.sample_order = sample_order(config_, data_);
    save_checkpoint(directory(), state, config_.checkpoint.keep);
  });
  saved_step_ = step_;
  if (stop_watcher_) stop_watcher_->saved(watch.elapsed_s());
}

/// The ranks may have several reasons, or none of their own: the strongest one decides for all.
ExitCode Run::stop() {
  auto strongest = static_cast<std::int64_t>(stop_reason());
  world_.all_reduce(std::span(&strongest, 1), comm::Reduction::max, "why the run stops");
  const auto reason = static_cast<StopReason>(strongest);
  const ExitCode code = reason == StopReason::file ? ExitCode::done : ExitCode::requeue;
  if (saved_step_ != step_) save();
  log::info("stopped     {} after step {}, state saved; go on with --resume (exit code {})", describe_stop(reason),
            step_, static_cast<int>(code));
  if (stop_watcher_ && reason == StopReason::file) stop_watcher_->remove_stop_file();
  queue_.reset();
  replica_->close();
  return code;
}

ExitCode Run::finish() {
  if (meter_.steps() > 0) report();
  if (data_.has_test && evaluated_step_ != step_) evaluate();
  if (is_stopping_) return stop();
  if (saved_step_ != step_) save();
  log::info("done        {} steps, run in {}", step_, directory().string());
  log::info("next        muster eval {}", directory().string());
  queue_.reset();
  replica_->close();
  return ExitCode::done;
}

void Run::diverged(const std::string& how) {
  queue_.reset();
  const std::string saved =
      saved_step_ >= 0 ? fmt::format("the checkpoint of step {} is good", saved_step_) : "no checkpoint was written";
  throw AgreedError(
      ExitCode::diverged,
      !is_rank_0()
          ? ""
          : fmt::format("diverged at step {}: {}; {}; try a lower optimizer.lr, a warm-up or optimizer.clip_norm",
                        step_, how, saved));
}

}  // namespace

TrainFlags continue_flags(comm::Communicator& world, const std::string& run_directory) {
  std::int64_t has_checkpoint = 0;
  if (world.rank() == 0) has_checkpoint = list_checkpoints(run_directory).empty() ? 0 : 1;
  world.all_reduce(std::span(&has_checkpoint, 1), comm::Reduction::max, "whether there is a checkpoint");
  return {has_checkpoint != 0, has_checkpoint == 0};
}

ExitCode train(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags) {
  if (loaded.config.parallel.strategy == "parameter_server") return train_async(session, loaded, flags);
  Run run(session, loaded, flags);
  return run.train();
}

}  // namespace muster::train
