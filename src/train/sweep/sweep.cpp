// Groups, their trials, and the account of it all.
#include <muster/train/sweep.hpp>

#include "train/sweep/claims.hpp"
#include "train/sweep/plan_file.hpp"
#include "train/sweep/results.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/train/loop.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/together.hpp>

#include <algorithm>
#include <array>

namespace muster::train {
namespace {

namespace fs = std::filesystem;

/// For the files of the sweep as a whole, which several jobs may write.
constexpr double lock_limit_s = 60;

/// While it lives, waits may last as long as other groups train, or rank 0 checks many trials: a lost rank is noticed
/// by other means.
class Patience {
 public:
  explicit Patience(comm::Session& session) : session_(session), before_s_(session.world().deadline_s()) {
    session_.set_deadline(1e9);
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() { session_.set_deadline(before_s_); }

 private:
  comm::Session& session_;
  double before_s_;
};

class Sweeper {
 public:
  Sweeper(comm::Session& session, const config::Sweep& plan)
      : session_(session), world_(session.world()), plan_(plan), is_over_(plan.trials()) {}

  ExitCode run() {
    open();
    const auto ranks = static_cast<int>(plan_.options.ranks_per_trial);
    group_ = world_.split(world_.rank() / ranks, world_.rank(), "trial");
    group_session_ = comm::make_group_session(session_, *group_);
    log::set_printing(is_leader());
    // A trial that another job had in the last round may be free now, if that job has died.
    while (run_round()) {
    }
    return finish();
  }

 private:
  void open();
  void check() const;
  void describe() const;
  bool run_round();
  std::int64_t take_trial();
  bool run_next();
  void run_trial(std::size_t trial);
  ExitCode train_trial(std::size_t trial);
  void record(std::size_t trial, const TrialResult& result) const;
  void record_lone_failure(std::size_t trial, const TrialResult& result) const;
  ExitCode finish();
  ExitCode give_account() const;
  bool is_leader() const { return group_->rank() == 0; }

  comm::Session& session_;
  comm::Communicator& world_;
  const config::Sweep& plan_;
  std::unique_ptr<comm::Communicator> group_;
  std::unique_ptr<comm::Session> group_session_;

  // Of the leader.
  std::optional<FileLock> claim_;
  std::vector<bool> is_over_;  // trials known to have a result
  std::size_t next_ = 0;       // where to look first

  bool is_stopped_ = false;
  ExitCode failure_ = ExitCode::done;  // of the sweep itself; this group's, then the worst of all
};

void Sweeper::open() {
  const Patience patience(session_);
  together(world_, "the plan of the sweep", [&] { check(); });
  together(world_, "sweep directory", [&] {
    if (world_.rank() != 0) return;
    {
      const FileLock lock = wait_for_claim(plan_.directory, lock_limit_s);
      keep_plan(fs::path(plan_.directory) / "sweep.yaml", plan_);
    }
    describe();
  });
}

/// Every trial's config, so that no mistake waits for the night.
void Sweeper::check() const {
  const auto ranks = static_cast<int>(plan_.options.ranks_per_trial);
  if (world_.size() % ranks != 0)
    fail(ExitCode::usage, "sweep.ranks_per_trial: {} does not divide the {} ranks of the job; start a multiple of it",
         ranks, world_.size());
  if (world_.rank() != 0) return;
  std::vector<std::string> problems, of_metric;
  for (std::size_t t = 0; t < plan_.trials(); ++t) {
    try {
      const auto loaded = config::load_trial(plan_, t);
      for (const std::string& problem : config::check_ranks(loaded.config, ranks))
        problems.push_back(fmt::format("trial {}: {}", t, problem));
      const std::string problem = metric_problem(loaded.config, plan_.options.metric);
      if (!problem.empty() && of_metric.empty()) of_metric = {fmt::format("trial {}: {}", t, problem)};
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  problems.insert(problems.begin(), of_metric.begin(), of_metric.end());
  constexpr std::size_t most = 20;
  if (problems.size() > most) {
    problems.push_back(fmt::format("... and {} more", problems.size() - most));
    problems.erase(problems.begin() + most, problems.end() - 1);
  }
  if (!problems.empty()) throw Error(ExitCode::usage, join(problems, "\n"));
}

void Sweeper::describe() const {
  std::size_t finished = 0;
  for (std::size_t t = 0; t < plan_.trials(); ++t) finished += read_result(plan_.trial_directory(t)) ? 1 : 0;
  log::info("sweep       {} trials by {}, {} of them finished, in {}", plan_.trials(), plan_.options.method, finished,
            plan_.directory);
  log::info("ranks       {} in {} groups of {}", world_.size(), world_.size() / plan_.options.ranks_per_trial,
            plan_.options.ranks_per_trial);
}

/// Every group's trials until it finds none to take. What a group alone fails at ends the sweep, but not the trials of
/// the others. Returns whether to look again.
bool Sweeper::run_round() {
  std::int64_t trials = 0;
  try {
    while (run_next()) ++trials;
  } catch (const AgreedError& error) {
    failure_ = error.code();
    if (*error.what() != '\0') log::write_error(fmt::format("muster: error: {}", error.what()));
  }
  const Patience patience(session_);
  std::array<std::int64_t, 3> most{trials, is_stopped_ ? 1 : 0, static_cast<std::int64_t>(failure_)};
  world_.all_reduce(most, comm::Reduction::max, "the end of the other trials");
  is_stopped_ = most[1] != 0;
  failure_ = static_cast<ExitCode>(most[2]);
  return most[0] > 0 && !is_stopped_ && failure_ == ExitCode::done;
}

/// The leader's: a trial without result that nobody works on, claimed; -1 when there is none.
std::int64_t Sweeper::take_trial() {
  if (is_stop_requested()) is_stopped_ = true;
  for (std::size_t i = 0; i < plan_.trials() && !is_stopped_; ++i) {
    const std::size_t trial = next_;
    next_ = (next_ + 1) % plan_.trials();
    const fs::path directory = plan_.trial_directory(trial);
    if (!is_over_[trial]) is_over_[trial] = read_result(directory).has_value();
    if (is_over_[trial]) continue;
    claim_ = try_claim(directory);
    if (claim_ && !read_result(directory)) return static_cast<std::int64_t>(trial);
    claim_.reset();
  }
  return -1;
}

bool Sweeper::run_next() {
  std::int64_t trial = -1;
  together(*group_, "the next trial", [&] {
    if (is_leader()) trial = take_trial();
  });
  group_->all_reduce(std::span(&trial, 1), comm::Reduction::max, "the next trial");
  if (trial < 0) return false;
  run_trial(static_cast<std::size_t>(trial));
  claim_.reset();  // not after a failure: others would fail at this trial, too
  return !is_stopped_;
}

/// What all ranks of the group agree on is the trial's failure. A rank that fails alone leaves its group in the middle
/// of something: then the job ends, the trial is recorded as failed (unless ranks were lost, which is not its fault),
/// and the sweep can be started again.
void Sweeper::run_trial(std::size_t trial) {
  const Stopwatch watch;
  if (is_leader()) log::info("trial {:>4}  starts: {}", trial, plan_.describe(trial));
  TrialResult result;
  log::set_terminal(false);
  try {
    result.code = train_trial(trial);
  } catch (const AgreedError& error) {
    result = {error.code(), error.what(), 0};
    if (*error.what() != '\0') log::info("error: {}", error.what());
  } catch (...) {
    const Failure failure = current_failure();
    result = {failure.code, failure.message, watch.elapsed_s()};
    if (group_->size() > 1) {
      if (failure.code != ExitCode::comm) record_lone_failure(trial, result);
      throw;
    }
  }
  log::close_file();
  log::set_terminal(true);
  if (result.code == ExitCode::requeue) {
    is_stopped_ = true;
    if (is_leader()) log::info("trial {:>4}  stopped, state saved", trial);
    return;
  }
  result.seconds = watch.elapsed_s();
  if (session_.are_ranks_lost()) {  // the trial survived that, but its group can do nothing together any more
    if (is_leader()) record(trial, result);
    fail(ExitCode::comm, "ranks were lost in trial {}; its result is kept, start the sweep again", trial);
  }
  together(*group_, "the result of the trial", [&] {
    if (is_leader()) record(trial, result);
  });
}

ExitCode Sweeper::train_trial(std::size_t trial) {
  config::Loaded loaded;
  together(*group_, "reading the config", [&] { loaded = config::load_trial(plan_, trial); });
  return train(*group_session_, loaded, continue_flags(*group_, loaded.config.run.directory));
}

void Sweeper::record(std::size_t trial, const TrialResult& result) const {
  const fs::path directory = plan_.trial_directory(trial);
  write_result(directory, result, group_->rank());
  const Trial score = read_trial(directory, plan_.options.metric);
  if (score.result->code == ExitCode::done)
    log::info("trial {:>4}  done: {} {:.6g}, {} steps, {}", trial, plan_.options.metric, score.metric.value,
              score.metric.step, human_seconds(result.seconds));
  else
    log::warn("trial {:>4} failed with code {}: {}", trial, static_cast<int>(score.result->code),
              score.result->message);
}

/// Called with that failure on its way: what goes wrong here must not hide it.
void Sweeper::record_lone_failure(std::size_t trial, const TrialResult& result) const {
  try {
    write_result(plan_.trial_directory(trial), result, group_->rank());
  } catch (const std::exception& error) {
    log::write_error(fmt::format("muster: the failure of trial {} is not recorded: {}", trial, error.what()));
  }
}

ExitCode Sweeper::finish() {
  const Patience patience(session_);
  auto code = static_cast<std::int64_t>(ExitCode::done);
  together(world_, "the account of the sweep", [&] {
    if (world_.rank() == 0) code = static_cast<std::int64_t>(give_account());
  });
  world_.all_reduce(std::span(&code, 1), comm::Reduction::max, "the code of the sweep");
  return failure_ != ExitCode::done ? failure_ : static_cast<ExitCode>(code);
}

/// Writes and prints it; returns the code of a sweep that did not fail itself.
ExitCode Sweeper::give_account() const {
  const FileLock lock = wait_for_claim(plan_.directory, lock_limit_s);
  std::vector<Trial> trials;
  for (std::size_t t = 0; t < plan_.trials(); ++t)
    trials.push_back(read_trial(plan_.trial_directory(t), plan_.options.metric));
  write_file_atomic(fs::path(plan_.directory) / "trials.csv", results_csv(plan_, trials));
  const auto lines = ranking(plan_, trials);
  write_file_atomic(fs::path(plan_.directory) / "ranking.txt", join(lines, "\n") + "\n");
  for (const std::string& line : lines) log::info("{}", line);
  std::size_t done = 0, unfinished = 0;
  ExitCode code = ExitCode::done;
  for (const Trial& trial : trials) {
    if (!trial.result) ++unfinished;
    else if (trial.result->code == ExitCode::done) ++done;
    else if (code == ExitCode::done) code = trial.result->code;
  }
  if (done > 0 || unfinished > 0) code = ExitCode::done;
  if (is_stopped_ && unfinished > 0) code = ExitCode::requeue;
  const bool is_cut_short = is_stopped_ || failure_ != ExitCode::done;
  log::info("{}        {} trials done, {} failed, {} {}, in {}", is_cut_short ? "stop" : "done", done,
            trials.size() - done - unfinished, unfinished,
            is_cut_short ? "unfinished: start the sweep again" : "left to other jobs", plan_.directory);
  return code;
}

}  // namespace

ExitCode sweep(comm::Session& session, const config::Sweep& plan) {
  Sweeper sweeper(session, plan);
  return sweeper.run();
}

}  // namespace muster::train
