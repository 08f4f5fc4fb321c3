// What is known of the trials of a sweep: one file result.json in the directory of each that has ended. What it scored
// is not in there but in its metrics, so that another metric can rank trials that are long over.
#pragma once

#include "train/sweep/metric.hpp"

#include <muster/base/error.hpp>
#include <muster/config/sweep.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

struct TrialResult {
  ExitCode code = ExitCode::done;
  std::string message;  ///< of a failure, one line
  double seconds = 0;   ///< of the last job that trained it
};

/// Whole or not at all. `writer`: no two processes that may write at the same time have the same. Throws
/// Error(checkpoint).
void write_result(const std::filesystem::path& trial_directory, const TrialResult& result, int writer);
/// Nothing where the trial has not ended. Throws Error(checkpoint) for a file that is none of ours.
std::optional<TrialResult> read_result(const std::filesystem::path& trial_directory);

/// A trial in the account: its result, and its score when done. One without a score counts as failed.
struct Trial {
  std::optional<TrialResult> result;
  MetricValue metric;
};
Trial read_trial(const std::filesystem::path& trial_directory, const std::string& metric);

/// One line per trial, in their order.
std::string results_csv(const config::Sweep& plan, const std::vector<Trial>& trials);
/// The successful ones, the best first (equal values: by number), then the failures. One line each, a heading before.
std::vector<std::string> ranking(const config::Sweep& plan, const std::vector<Trial>& trials);

}  // namespace muster::train
