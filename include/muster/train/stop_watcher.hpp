// Ends a run in good time: at its wall time less what a save takes, or as soon as there is a file "stop" in its
// directory. Either asks for a stop just as a signal does (signals.hpp), so every loop that polls one polls all.
#pragma once

#include <muster/train/options.hpp>

#include <atomic>
#include <filesystem>
#include <thread>

namespace muster::train {

/// Where the run has to be over, on the clock of now_s(); infinite where nothing says so. The sooner of run.wall_time,
/// counted from the start of the process, and the end of the Slurm job (SLURM_JOB_END_TIME, seconds since 1970).
/// Throws Error (usage) for a variable that is no number.
double end_of_time_s(const WallTime& wall_time);

/// What was measured so far of the pieces of work that cannot be cut short; seconds, the longest of each kind.
struct Reserve {
  double save_s = 0, step_s = 0, evaluation_s = 0;
  /// A stop that comes while a save begins waits for that save, a step, and the save after it.
  double total_s() const { return 2 * save_s + 2 * step_s + evaluation_s + end_of_job_s; }
  static constexpr double end_of_job_s = 2;  ///< MPI's and the launcher's own ending
};

/// What a save may take before one was measured: bytes of weights and optimizer state at a slow disk's speed.
double guessed_save_s(double bytes);

/// A thread that looks at the clock and at the file until it is destroyed. One per run, on rank 0: the others learn of
/// its wish as they learn of a signal there.
class StopWatcher {
 public:
  /// A stop file that an earlier run left behind is removed unless this one goes on from it.
  StopWatcher(std::filesystem::path directory, double end_s, double first_save_s, bool is_resumed);
  ~StopWatcher();
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  /// From the thread that trains.
  void stepped(double seconds) { keep_longest(step_s_, seconds); }
  void evaluated(double seconds) { keep_longest(evaluation_s_, seconds); }
  /// The first measured save replaces the guess.
  void saved(double seconds);
  /// The stop file was obeyed: removed, so that --resume goes on.
  void remove_stop_file() const;

  Reserve reserve() const { return {save_s_, step_s_, evaluation_s_}; }

 private:
  static void keep_longest(std::atomic<double>& longest, double seconds) {
    if (seconds > longest) longest = seconds;
  }
  void watch(const std::stop_token& token) const;

  std::filesystem::path stop_file_;
  double end_s_;
  std::atomic<double> save_s_, step_s_ = 0, evaluation_s_ = 0;
  bool has_saved_ = false;
  std::jthread thread_;
};

}  // namespace muster::train
