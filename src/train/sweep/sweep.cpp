// Groups, their trials, and the account of it all.
#include <muster/train/sweep.hpp>

#include "train/sweep/claims.hpp"
#include "train/sweep/results.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/train/loop.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/together.hpp>

#include <algorithm>

namespace muster::train {
namespace {

namespace fs = std::filesystem;

/// Waits that last as long as other groups train: a lost rank is noticed by other means.
constexpr double patience_s = 1e9;
/// For the files of the sweep as a whole, which several jobs may write.
constexpr double lock_limit_s = 60;

class Sweeper {
 public:
  Sweeper(comm::Session& session, const config::Sweep& plan)
      : session_(session), world_(session.world()), plan_(plan) {}

  ExitCode run() {
    together(world_, "the plan of the sweep", [&] { check(); });
    together(world_, "sweep directory", [&] {
      if (world_.rank() == 0) open_directory();
    });
    const auto ranks = static_cast<int>(plan_.options.ranks_per_trial);
    group_ = world_.split(world_.rank() / ranks, world_.rank(), "trial");
    group_session_ = comm::make_group_session(session_, *group_);
    log::set_printing(is_leader());
    if (world_.rank() == 0) describe();
    while (run_next()) {
    }
    return finish();
  }

 private:
  void check() const;
  void open_directory() const;
  void describe() const;
  bool run_next();
  std::int64_t take_trial();
  void run_trial(std::size_t trial);
  ExitCode train_trial(std::size_t trial);
  void record(std::size_t trial, TrialResult result, double seconds);
  ExitCode finish();
  std::vector<std::optional<TrialResult>> all_results() const;
  bool is_leader() const { return group_->rank() == 0; }

  comm::Session& session_;
  comm::Communicator& world_;
  const config::Sweep& plan_;
  std::unique_ptr<comm::Communicator> group_;
  std::unique_ptr<comm::Session> group_session_;
  std::unique_ptr<Claim> claim_;  // of the leader
  std::size_t next_ = 0;          // where the leader looks first
  bool is_stopped_ = false;
};

/// Every trial's config, so that no mistake waits for the night.
void Sweeper::check() const {
  const auto ranks = static_cast<int>(plan_.options.ranks_per_trial);
  if (world_.size() % ranks != 0)
    fail(ExitCode::usage, "sweep.ranks_per_trial: {} does not divide the {} ranks of the job; start a multiple of it",
         ranks, world_.size());
  if (world_.rank() != 0) return;
  std::vector<std::string> problems;
  for (std::size_t t = 0; t < plan_.trials(); ++t) {
    try {
      const auto loaded = config::load_trial(plan_, t);
      for (const std::string& problem : config::check_ranks(loaded.config, ranks))
        problems.push_back(fmt::format("trial {}: {}", t, problem));
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  constexpr std::size_t most = 20;
  if (problems.size() > most) {
    problems.push_back(fmt::format("... and {} more", problems.size() - most));
    problems.erase(problems.begin() + most, problems.end() - 1);
  }
  if (!problems.empty()) throw Error(ExitCode::usage, join(problems, "\n"));
}

/// The plan is kept beside the trials: results of another plan must not be taken for this one's.
void Sweeper::open_directory() const {
  const fs::path directory = plan_.directory;
  std::string text = config::load_trial(plan_, 0).effective_yaml;
  text += fmt::format("# metric {}, {} ranks per trial\n", plan_.options.metric, plan_.options.ranks_per_trial);
  for (std::size_t t = 0; t < plan_.trials(); ++t) text += fmt::format("# trial {}: {}\n", t, plan_.describe(t));
  const fs::path file = directory / "sweep.yaml";
  const auto lock = wait_for_claim(directory, lock_limit_s);
  if (!fs::exists(file)) return write_file_atomic(file, text);
  if (read_file(file, static_cast<int>(ExitCode::checkpoint)) != text)
    fail(ExitCode::usage, "{} holds another sweep (compare sweep.yaml there); set another run.name, or delete it",
         directory.string());
}

void Sweeper::describe() const {
  std::size_t finished = 0;
  for (const auto& result : all_results()) finished += result ? 1 : 0;
  log::info("sweep       {} trials by {}, {} of them finished, in {}", plan_.trials(), plan_.options.method, finished,
            plan_.directory);
  log::info("ranks       {} in {} groups of {}", world_.size(), world_.size() / plan_.options.ranks_per_trial,
            plan_.options.ranks_per_trial);
}

/// The leader's: a trial without result that nobody works on, claimed; -1 when there is none.
std::int64_t Sweeper::take_trial() {
  if (is_stop_requested()) is_stopped_ = true;
  for (; !is_stopped_ && next_ < plan_.trials(); ++next_) {
    const fs::path directory = plan_.trial_directory(next_);
    if (read_result(directory)) continue;
    claim_ = try_claim(directory);
    if (claim_ && !read_result(directory)) return static_cast<std::int64_t>(next_++);
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
  if (!is_stopped_) claim_.reset();  // a stopped trial's run directory stays locked as long as this process lives
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
    result = {error.code(), error.what(), 0, 0, 0};
    if (*error.what() != '\0') log::info("error: {}", error.what());
  } catch (...) {
    const Failure failure = current_failure();
    result = {failure.code, failure.message, 0, 0, 0};
    if (group_->size() > 1) {
      if (failure.code != ExitCode::comm) write_result(plan_.trial_directory(trial), result);
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
  if (session_.are_ranks_lost()) {  // the trial survived that, but its group can do nothing together any more
    if (is_leader()) record(trial, result, watch.elapsed_s());
    fail(ExitCode::comm, "ranks were lost in trial {}; its result is kept, start the sweep again", trial);
  }
  together(*group_, "the result of the trial", [&] {
    if (is_leader()) record(trial, result, watch.elapsed_s());
  });
}

ExitCode Sweeper::train_trial(std::size_t trial) {
  config::Loaded loaded;
  together(*group_, "reading the config", [&] { loaded = config::load_trial(plan_, trial); });
  return train(*group_session_, loaded, continue_flags(*group_, loaded.config.run.directory));
}

void Sweeper::record(std::size_t trial, TrialResult result, double seconds) {
  const fs::path directory = plan_.trial_directory(trial);
  try {
    if (result.code == ExitCode::done) result = read_metric(directory, plan_.options.metric);
  } catch (const Error& error) {
    result = {error.code(), error.what(), 0, 0, 0};
  }
  result.seconds = seconds;
  write_result(directory, result);
  if (result.code == ExitCode::done)
    log::info("trial {:>4}  done: {} {:.6g}, {} steps, {}", trial, plan_.options.metric, result.value, result.step,
              human_seconds(seconds));
  else log::warn("trial {:>4} failed with code {}: {}", trial, static_cast<int>(result.code), result.message);
}

std::vector<std::optional<TrialResult>> Sweeper::all_results() const {
  std::vector<std::optional<TrialResult>> results;
  for (std::size_t t = 0; t < plan_.trials(); ++t) results.push_back(read_result(plan_.trial_directory(t)));
  return results;
}

ExitCode Sweeper::finish() {
  const double deadline_s = world_.deadline_s();
  session_.set_deadline(patience_s);
  std::int64_t was_stopped = is_stopped_ ? 1 : 0;
  world_.all_reduce(std::span(&was_stopped, 1), comm::Reduction::max, "the end of the other trials");
  session_.set_deadline(deadline_s);
  std::int64_t code = 0;
  together(world_, "the account of the sweep", [&] {
    if (world_.rank() != 0) return;
    const auto lock = wait_for_claim(plan_.directory, lock_limit_s);
    const auto results = all_results();
    write_file_atomic(fs::path(plan_.directory) / "trials.csv", results_csv(plan_, results));
    const auto lines = ranking(plan_, results);
    write_file_atomic(fs::path(plan_.directory) / "ranking.txt", join(lines, "\n") + "\n");
    for (const std::string& line : lines) log::info("{}", line);
    std::size_t done = 0, unfinished = 0;
    for (const auto& result : results) {
      if (!result) ++unfinished;
      else if (result->code == ExitCode::done) ++done;
      else if (code == 0) code = static_cast<std::int64_t>(result->code);
    }
    if (done > 0 || unfinished > 0) code = 0;
    if (was_stopped != 0 && unfinished > 0) code = static_cast<std::int64_t>(ExitCode::requeue);
    log::info("{}        {} trials done, {} failed, {} {}, in {}", was_stopped != 0 ? "stop" : "done", done,
              results.size() - done - unfinished, unfinished,
              was_stopped != 0 ? "unfinished: start the sweep again" : "left to other jobs", plan_.directory);
  });
  world_.all_reduce(std::span(&code, 1), comm::Reduction::max, "the code of the sweep");
  return static_cast<ExitCode>(code);
}

}  // namespace

ExitCode sweep(comm::Session& session, const config::Sweep& plan) {
  Sweeper sweeper(session, plan);
  return sweeper.run();
}

}  // namespace muster::train
