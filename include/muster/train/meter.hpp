// What happened since the last line of the log: sums over steps on this rank, made global at the end of an interval.
#pragma once

#include <muster/base/clock.hpp>
#include <muster/comm/communicator.hpp>
#include <muster/train/step.hpp>

#include <array>
#include <vector>

namespace muster::train {

/// One interval, over all ranks.
struct Interval {
  std::int64_t steps = 0;
  std::int64_t rows = 0;
  double seconds = 0;
  double loss = 0;  ///< mean over the interval's samples
  double accuracy = 0;
  double top_k_accuracy = 0;
  double samples_per_s = 0;
  double exposed_comm = 0;  ///< share of the time spent waiting for communication, mean over ranks
  double stall = 0;         ///< share of the time spent waiting for input, mean over ranks
  double grad_norm = 0;     ///< of the last step, when clipping
  double step_ms_p20 =
      0;  ///< 20th percentile and median of this rank's step times; the former hardly feels other processes
  double step_ms_median = 0;
};

class Meter {
 public:
  Meter() { step_ms_.reserve(most_step_times); }
  void add(const StepResult& result, double step_s);
  /// Collective; starts the next interval. data: rows and losses are summed over these ranks; world: seconds over
  /// those (in a pipeline the other stages too). stall_s, waited_s: totals so far of the queue and of the statistic
  /// sums. labels_per_sample: what accuracies are shares of.
  Interval finish(comm::Communicator& data, comm::Communicator& world, double stall_s, double waited_s,
                  std::int64_t labels_per_sample);
  std::int64_t steps() const { return steps_ + carried_[0]; }
  /// Collective: steps, rows, loss units, correct and top-k correct so far in this interval, for a checkpoint.
  std::array<std::int64_t, 5> totals(comm::Communicator& data) const;
  /// Goes on with the interval of a checkpoint; the same sums on every rank. Its time is not counted.
  void carry_on(const std::array<std::int64_t, 5>& totals) { carried_ = totals; }

 private:
  static constexpr std::size_t most_step_times = 4096;  ///< of an interval; later ones are not looked at
  Stopwatch watch_;
  std::vector<double> step_ms_;
  model::MicroBatchResult sums_;
  std::array<std::int64_t, 5> carried_{};
  std::int64_t steps_ = 0;
  double exposed_s_ = 0;
  double grad_norm_ = 0;
  double stall_before_s_ = 0;
  double waited_before_s_ = 0;
};

}  // namespace muster::train
