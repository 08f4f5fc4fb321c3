// What the trials of a sweep are ranked by: a figure of their metrics.
#pragma once

#include <muster/train/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::train {

struct MetricValue {
  double value = 0;
  std::int64_t step = 0;  ///< at which it was measured
};

/// The last value of the metric ("loss", "test.accuracy") in a run's metrics.jsonl. Throws Error(usage) naming what
/// there is where there is none, Error(diverged) where it is NaN or Inf.
MetricValue read_metric(const std::filesystem::path& run_directory, const std::string& metric);

/// The numbers that training with this config writes at its end at the latest, as sweep.metric names them.
std::vector<std::string> metric_names(const Config& config);

/// Why such a run will have no such metric, and the mend; "" where it will.
std::string metric_problem(const Config& config, const std::string& metric);

}  // namespace muster::train
