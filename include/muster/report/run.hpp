// A run as its directory tells it: the lines of metrics.jsonl and the settings of config.yaml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace muster::report {

struct Point {
  double x = 0, y = 0;
};

struct Run {
  std::string name;  ///< the directory as given
  /// Column of the metrics to its points over steps, in the order of the file; lines with `split: test` under
  /// "test.COLUMN". A value that is no number (NaN, Inf) leaves a gap.
  std::map<std::string, std::vector<Point>> columns;
  /// Updates by their staleness, over the whole run; empty for synchronous strategies.
  std::map<std::int64_t, std::int64_t> staleness;
  /// Path of a setting ("optimizer.momentum.lr") to its value; lists as one text.
  std::map<std::string, std::string> settings;

  const std::vector<Point>& column(const std::string& key) const;  ///< empty where there is none
};

/// Throws Error(data) naming the file and the line of what cannot be read. A last line cut off by a crash is left out.
Run load_run(const std::filesystem::path& directory);

/// Settings of a config as muster writes it: two blanks per level, lists as blocks of "- " lines.
std::map<std::string, std::string> flatten_settings(const std::string& yaml);

/// Paths whose values differ between the runs (a missing one counts), in order.
std::vector<std::string> differing_settings(const std::vector<Run>& runs);

}  // namespace muster::report
