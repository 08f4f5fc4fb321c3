// The run around the step: start-up checks, resume, the loop over batches, intervals, evaluations, checkpoints, the
// end. Everything that may fail on one rank only goes through together(), so all ranks end alike.
#include <muster/train/loop.hpp>

#include <muster/base/clock.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/batch_queue.hpp>
#include <muster/train/assemble.hpp>
#include <muster/train/audit.hpp>
#include <muster/train/evaluate.hpp>
#include <muster/train/gpt2.hpp>
#include <muster/train/meter.hpp>
#include <muster/train/metrics.hpp>
#include <muster/train/run_directory.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/state.hpp>
#include <muster/train/together.hpp>

#include <cmath>

namespace muster::train {
namespace {

/// Steps between two events; 0: never.
std::int64_t interval_steps(const Every& every, std::int64_t steps_per_epoch) {
  if (every.steps > 0) return every.steps;
  if (every.epochs > 0)
    return std::max<std::int64_t>(std::llround(every.epochs * static_cast<double>(steps_per_epoch)), 1);
  return 0;
}

class Run {
 public:
  Run(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags)
      : session_(session), world_(session.world()), loaded_(loaded), config_(loaded.config), flags_(flags) {}

  ExitCode train() {
    start();
    while (const dataset::Batch* batch = queue_->next()) {
      run_step(*batch);
      if (is_due(log_steps_) || step_ == total_steps_) report();
      if (is_due(eval_steps_) && step_ != total_steps_) evaluate();
      if (is_stopping_) return stop();
      if (is_due(checkpoint_steps_) && step_ != total_steps_) save();
    }
    return finish();
  }

 private:
  void start();
  void open_data();
  void load_start();
  void restore();
  void describe();
  void run_step(const dataset::Batch& batch);
  void report();
  void show_progress(const StepResult& result);
  void evaluate();
  void check_weights();
  void save();
  ExitCode stop();
  ExitCode finish();
  [[noreturn]] void diverged(const std::string& how);
  bool is_rank_0() const { return world_.rank() == 0; }
  bool is_due(std::int64_t steps) const { return steps > 0 && step_ % steps == 0; }
  std::filesystem::path directory() const { return config_.run.directory; }

  comm::Session& session_;
  comm::Communicator& world_;
  const config::Loaded& loaded_;
  const Config& config_;
  TrainFlags flags_;

  std::unique_ptr<dataset::Dataset> data_;
  std::int64_t dataset_size_ = 0, steps_per_epoch_ = 0, total_samples_ = 0, total_steps_ = 0;
  std::int64_t log_steps_ = 0, eval_steps_ = 0, checkpoint_steps_ = 0;
  bool has_labels_ = false, has_test_ = false;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<optim::Schedule> schedule_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<dataset::BatchQueue> queue_;
  MetricsWriter metrics_;
  EpochAudit audit_;
  Meter meter_;
  std::int64_t step_ = 0, sample_counter_ = 0, saved_step_ = -1;
  double base_lr_ = 0, lr_ = 0, last_loss_ = 0;
  bool is_stopping_ = false, has_stepped_ = false;
  std::int64_t first_step_ = 0;
  double last_progress_s_ = 0;
  Stopwatch run_watch_;
};

void Run::start() {
  session_.set_deadline(config_.run.deadline_s);
  const int threads = thread_count(config_, session_.launch().cores_allowed);
  together(world_, "launch check", [&] {
    if (const auto problems = config::check_ranks(config_, world_.size()); !problems.empty())
      throw Error(ExitCode::usage, join(problems, "\n"));
    comm::check_launch(session_, threads, config_.parallel.allow_oversubscribe);
  });
  together(world_, "opening the data", [&] { open_data(); });
  together(world_, "assembling the network", [&] {
    replica_ = std::make_unique<Replica>(config_, world_, dataset_size_, threads);
    schedule_ =
        std::make_unique<optim::Schedule>(config_.schedule, total_steps_, static_cast<double>(steps_per_epoch_));
  });
  replica_->store->initialise(config_.run.seed);
  if (!config_.model.weights.empty() && !flags_.is_resumed) together(world_, "start weights", [&] { load_start(); });
  together(world_, "run directory", [&] {
    if (!is_rank_0()) return;
    open_run_directory(directory(), flags_.is_resumed, flags_.is_forced);
    write_file_atomic(directory() / "config.yaml", loaded_.effective_yaml);
    log::open_file(directory() / "log.txt");
  });
  if (flags_.is_resumed) together(world_, "resume", [&] { restore(); });
  together(world_, "metrics file", [&] {
    if (is_rank_0()) metrics_ = MetricsWriter(directory() / "metrics.jsonl", flags_.is_resumed ? step_ : -1);
  });
  base_lr_ = config_.optimizer.lr * optim::lr_scaling_factor(config_.parallel.lr_scaling, world_.size());
  evaluator_ = std::make_unique<Evaluator>(config_, replica_->network, *replica_->backend, *replica_->store, world_,
                                           replica_->threads);

  dataset::QueueOptions options;
  options.seed = config_.run.seed;
  options.batch = config_.data.batch;
  options.first_sample = sample_counter_;
  options.last_sample = total_samples_;
  options.depth = config_.data.prefetch;
  options.check_finite = config_.data.check_finite;
  options.shuffle = config_.data.shuffle;
  options.transforms = config_.data.transforms;
  options.rows_of = [plan = replica_->plan](std::int64_t rows) { return plan.rows_of_replica(plan.replica, rows); };
  together(world_, "input queue", [&] { queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_), options); });
  describe();
  first_step_ = step_;
  run_watch_.restart();
}

void Run::open_data() {
  data_ = dataset::open_train(config_.data, config_.run.seed);
  dataset_size_ = data_->size();
  if (dataset_size_ < world_.size())
    fail(ExitCode::data, "{}: {} samples for {} ranks: expected at least one per rank; start fewer ranks",
         data_->describe(), dataset_size_, world_.size());
  if (data_->input_shape() != config_.model.input)
    fail(ExitCode::data, "{}: samples have shape {}, model.input says {}", data_->describe(),
         data_->input_shape().text(), config_.model.input.text());
  const auto network = model::build_network(config_.model);
  has_labels_ = network.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  if (has_labels_ && is_rank_0()) dataset::check_labels(*data_, network.classes());
  if (has_labels_ && data_->target_shape().elements() != network.targets_per_sample())
    fail(ExitCode::data, "{}: {} labels per sample, but the network's output {} needs {}", data_->describe(),
         data_->target_shape().elements(), network.output.text(), network.targets_per_sample());
  if (!has_labels_ && data_->target_shape().elements() != network.output.elements())
    fail(ExitCode::data, "{}: targets have shape {}, the network's output is {}", data_->describe(),
         data_->target_shape().text(), network.output.text());
  if (const auto test = dataset::open_test(config_.data, config_.run.seed)) {
    has_test_ = true;
    if (has_labels_ && is_rank_0()) dataset::check_labels(*test, network.classes());
    if (test->input_shape() != data_->input_shape())
      fail(ExitCode::data, "{}: samples have shape {}, those of the training split {}", test->describe(),
           test->input_shape().text(), data_->input_shape().text());
  }
  steps_per_epoch_ = dataset::steps_per_epoch(dataset_size_, config_.data.batch);
  total_steps_ = config_.run.steps > 0 ? config_.run.steps : config_.run.epochs * steps_per_epoch_;
  const std::int64_t whole_epochs = total_steps_ / steps_per_epoch_, rest = total_steps_ % steps_per_epoch_;
  total_samples_ = whole_epochs * dataset_size_ + rest * config_.data.batch;
  log_steps_ = interval_steps(config_.log.every, steps_per_epoch_);
  eval_steps_ = has_test_ ? interval_steps(config_.eval.every, steps_per_epoch_) : 0;
  checkpoint_steps_ = interval_steps(config_.checkpoint.every, steps_per_epoch_);
}

void Run::load_start() {
  CheckpointState state;
  state.weights = read_safetensors(config_.model.weights);
  try {
    if (is_gpt2(state.weights)) state.weights = from_gpt2(replica_->network, state.weights);
    restore_weights(state, replica_->network, *replica_->store);
  } catch (const Error& error) {
    fail(error.code(), "model.weights {}: {}", config_.model.weights, error.what());
  }
}

void Run::restore() {
  const CheckpointState state = load_newest_checkpoint(directory());
  restore_state(state, *replica_);
  step_ = saved_step_ = state.step;
  sample_counter_ = state.sample_counter;
  audit_ = EpochAudit(state.audit, is_rank_0());
}

void Run::describe() {
  log::info("run         {} in {}", config_.run.name, directory().string());
  for (const std::string& line : loaded_.table) log::info("config      {}", line);
  log::info("ranks       {} on {}, {} mode", world_.size(), world_.is_one_node() ? world_.host(0) : "several hosts",
            config_.run.reproducible);
  for (const std::string& line : replica_->describe()) log::info("{}", line);
  if (!config_.model.weights.empty() && step_ == 0) log::info("weights     from {}", config_.model.weights);
  log::info("data        {}", queue_->dataset().describe());
  log::info("length      {} steps, {} per epoch{}", total_steps_, steps_per_epoch_,
            step_ > 0 ? fmt::format(", resumed at step {}", step_) : "");
}

void Run::run_step(const dataset::Batch& batch) {
  lr_ = base_lr_ * schedule_->factor(step_);
  const Stopwatch watch;
  const StepResult result = replica_->step->run(batch, step_, lr_, is_stop_requested());
  if (!result.is_finite) diverged("the loss is NaN or Inf");
  audit_.add(batch.indices);
  meter_.add(result, watch.elapsed_s());
  ++step_;
  sample_counter_ += batch.position.rows;
  is_stopping_ = result.is_stop_requested;
  if (sample_counter_ % dataset_size_ == 0) audit_.finish_epoch(world_, batch.position.epoch, dataset_size_);
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
  const auto filled = static_cast<std::size_t>(width * step_ / std::max<std::int64_t>(total_steps_, 1));
  const double rate = static_cast<double>(step_ - first_step_) / std::max(run_watch_.elapsed_s(), 1e-9);
  log::write_progress(fmt::format("[{}{}] {}/{}  loss {:.4f}  {:.1f} steps/s  {} left", std::string(filled, '='),
                                  std::string(static_cast<std::size_t>(width) - filled, ' '), step_, total_steps_,
                                  static_cast<double>(result.sums.loss_units) * model::loss_unit / rows, rate,
                                  human_seconds(static_cast<double>(total_steps_ - step_) / std::max(rate, 1e-9))));
}

void Run::report() {
  const Interval interval = meter_.finish(world_, queue_->stall_s(), replica_->statistics->waited_s(),
                                          replica_->network.targets_per_sample());
  last_loss_ = interval.loss;
  check_weights();
  const double epoch = static_cast<double>(sample_counter_) / static_cast<double>(dataset_size_);
  std::string line =
      fmt::format("step {:>7}/{}  epoch {:6.2f}  loss {:.5f}", step_, total_steps_, epoch, interval.loss);
  if (has_labels_) line += fmt::format("  accuracy {:5.2f} %", 100 * interval.accuracy);
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
  if (has_labels_) metrics.emplace_back("accuracy", interval.accuracy);
  if (has_labels_ && replica_->network.top_k > 0) metrics.emplace_back("top_k_accuracy", interval.top_k_accuracy);
  if (config_.optimizer.clip_norm > 0) metrics.emplace_back("grad_norm", interval.grad_norm);
  metrics_.write(metrics);
  if (config_.run.max_loss > 0 && !(interval.loss <= config_.run.max_loss))
    diverged(fmt::format("the mean loss {} of the last {} steps is above run.max_loss {}", interval.loss,
                         interval.steps, config_.run.max_loss));
}

/// A NaN may hide behind a relu and leave the loss finite: the weights themselves tell. They are equal on all ranks, so
/// all ranks come to the same verdict.
void Run::check_weights() {
  float zero = 0;  // NaN and Inf times zero are NaN
  for (const optim::ParamRun& run : replica_->runs)
    for (std::int64_t i = run.elements.begin; i < run.elements.end; ++i)
      zero += replica_->store->weights()[static_cast<std::size_t>(i)] * 0.0f;
  if (zero != 0.0f) diverged("a weight is NaN or Inf");
}

void Run::evaluate() {
  const EvalResult result = evaluator_->run(false);
  if (result.is_stopped) {
    is_stopping_ = true;
    return;
  }
  if (!result.is_finite) diverged("the loss on the test split is NaN or Inf");
  std::string line = fmt::format("test        step {}  loss {:.5f}", step_, result.loss);
  if (has_labels_) line += fmt::format("  accuracy {:.2f} %", 100 * result.accuracy);
  if (replica_->network.top_k > 0)
    line += fmt::format("  top-{} {:.2f} %", replica_->network.top_k, 100 * result.top_k_accuracy);
  log::info("{}", line);
  MetricsLine metrics{{"step", step_},
                      {"epoch", static_cast<double>(sample_counter_) / static_cast<double>(dataset_size_)},
                      {"split", std::string("test")},
                      {"samples", result.samples},
                      {"loss", result.loss}};
  if (has_labels_) metrics.emplace_back("accuracy", result.accuracy);
  if (replica_->network.top_k > 0) metrics.emplace_back("top_k_accuracy", result.top_k_accuracy);
  metrics_.write(metrics);
}

void Run::save() {
  check_weights();
  const auto audit = audit_.total(world_);
  together(world_, "checkpoint", [&] {
    if (!is_rank_0()) return;
    CheckpointState state = gather_state(*replica_);
    state.step = step_;
    state.sample_counter = sample_counter_;
    state.epoch = sample_counter_ / dataset_size_;
    state.audit = audit;
    save_checkpoint(directory(), state, config_.checkpoint.keep);
  });
  saved_step_ = step_;
}

ExitCode Run::stop() {
  if (saved_step_ != step_) save();
  log::info("stopped     {} after step {}, state saved; go on with --resume (exit code 75)",
            *stop_signal_name() ? stop_signal_name() : "on another rank's request", step_);
  queue_.reset();
  replica_->close();
  return ExitCode::requeue;
}

ExitCode Run::finish() {
  if (meter_.steps() > 0) report();
  if (has_test_) evaluate();
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

ExitCode train(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags) {
  Run run(session, loaded, flags);
  return run.train();
}

}  // namespace muster::train
