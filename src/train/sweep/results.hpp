// What is known of the trials of a sweep: one file result.json in the directory of each that has ended.
#pragma once

#include <muster/base/error.hpp>
#include <muster/config/sweep.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

struct TrialResult {
  ExitCode code = ExitCode::done;
  std::string message;    ///< of a failure, one line
  double value = 0;       ///< of the sweep's metric; only when done
  std::int64_t step = 0;  ///< of the value
  double seconds = 0;     ///< of the last job that trained it
};

/// The last value of the metric ("loss", "test.accuracy") in a run's metrics.jsonl. Throws Error(usage) naming what
/// there is where there is none, Error(diverged) where it is NaN or Inf.
TrialResult read_metric(const std::filesystem::path& run_directory, const std::string& metric);

/// Whole or not at all. Throws Error(checkpoint).
void write_result(const std::filesystem::path& trial_directory, const TrialResult& result);
/// Nothing where the trial has not ended. Throws Error(checkpoint) for a file that is none of ours.
std::optional<TrialResult> read_result(const std::filesystem::path& trial_directory);

/// One line per trial, in their order.
std::string results_csv(const config::Sweep& plan, const std::vector<std::optional<TrialResult>>& results);
/// The successful ones, the best first (equal values: by number), then the failures. One line each, a heading before.
std::vector<std::string> ranking(const config::Sweep& plan, const std::vector<std::optional<TrialResult>>& results);

}  // namespace muster::train
