// A sweep: many runs of one config, its trials, that differ in the keys its section `sweep` names. The section is taken
// out before the rest is read, so each trial is a config like any other, checked like any other.
#pragma once

#include <muster/config/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace muster::config {

struct SweepOptions {
  std::int64_t ranks_per_trial = 1;
  std::string method = "grid";       ///< grid | random
  std::int64_t trials = 0;           ///< random: how many
  std::uint64_t seed = 0;            ///< of the draws
  std::string metric = "test.loss";  ///< a name in metrics.jsonl; "test." in front: of the evaluations
  std::string goal = "auto";         ///< auto | min | max
};

struct Sweep {
  SweepOptions options;
  std::vector<std::string> keys;                 ///< "optimizer.lr", in the order of the file
  std::vector<std::vector<std::string>> values;  ///< per trial, per key: as written in YAML
  std::string directory;                         ///< run.directory of the config; trials write below it

  std::string text, name, folder;  ///< the file, for load_trial
  Overrides overrides;             ///< of every trial

  std::size_t trials() const { return values.size(); }
  std::string trial_directory(std::size_t trial) const;
  /// "optimizer.lr=0.1 data.batch=32"
  std::string describe(std::size_t trial) const;
  bool is_larger_better() const;
};

/// Reads the section `sweep` and lists the trials; --set may also name its keys (sweep.trials=20), not those it varies.
/// The trials' configs are not checked yet, but for the first, which names the directory. Throws Error(usage) with all
/// lines.
Sweep load_sweep(const std::string& file, const Overrides& overrides);
Sweep load_sweep_text(const std::string& text, const std::string& name, const Overrides& overrides);

/// The config of a trial. Throws Error(usage); places of values the sweep gave say "sweep, trial N".
Loaded load_trial(const Sweep& sweep, std::size_t trial);

}  // namespace muster::config
