// YAML -> typed options, strictly: unknown, duplicate and mistyped keys are errors with file:line:column and a "did you
// mean"; all errors are reported at once. The same table of keys serves the parser, the effective config, --set,
// environment variables, and configs/reference.yaml. Only this module sees yaml-cpp.
#pragma once

#include <muster/train/options.hpp>

#include <string>
#include <vector>

namespace muster::config {

/// Where values may come from besides the file, in rising precedence: environment (MUSTER_<SECTION>_<KEY>), then --set.
struct Overrides {
  std::vector<std::string> sets;  ///< "optimizer.lr=0.01"
  bool reads_environment = true;
};

struct Loaded {
  train::Config config;
  std::string effective_yaml;      ///< the complete effective config, loadable again to the same Config
  std::vector<std::string> table;  ///< "optimizer.adamw.lr   0.001   (--set)" lines for the log: values that differ
                                   ///< from the default, with origin
};

/// Parses and validates (ranges, sums, layer options; not data files, not rank counts). Throws Error(usage) whose
/// message lists every error, one per line: "file:line:column: key: what was expected, what was found, mend".
Loaded load(const std::string& file, const Overrides& overrides);
Loaded load_text(const std::string& text, const std::string& name, const Overrides& overrides);

/// Checks that depend on the number of ranks: grid against job size, replicas against grains, lr_scaling stated, ...
/// Returns all problems as lines; empty when fine.
std::vector<std::string> check_ranks(const train::Config& config, int ranks);

/// The text of configs/reference.yaml: every key with type, unit, default and one line of meaning.
std::string reference();

}  // namespace muster::config
