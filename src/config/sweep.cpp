// From the section `sweep` to the list of trials. Trial t and key k of a random sweep draw from a stream of their own,
// so more trials or another key at the end leave the others as they were.
#include <muster/config/sweep.hpp>

#include "config/document.hpp"
#include "config/load.hpp"
#include "config/number.hpp"
#include "config/sweep_section.hpp"
#include "config/table.hpp"

#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>

#include <cmath>
#include <filesystem>

namespace muster::config {
namespace {

constexpr std::size_t most_trials = 100000;

/// What one key may be: one of a list, or a number of an interval.
struct Choices {
  std::string key;
  std::vector<std::string> list;
  double from = 0, to = 0;
  bool is_log = false, is_integer = false;
};

struct Interval {
  double from = 0, to = 0;
  std::string scale = "linear";
  bool is_integer = false;
};

const std::vector<Key<Interval>>& interval_keys() {
  static const std::vector<Key<Interval>> all{
      key<Interval>(
          "from", [](Interval & i) -> auto& { return i.from; }, {}, "")
          .required(),
      key<Interval>(
          "to", [](Interval & i) -> auto& { return i.to; }, {}, "")
          .required(),
      key<Interval>(
          "scale", [](Interval & i) -> auto& { return i.scale; }, choice({"linear", "log"}), ""),
      key<Interval>(
          "integer", [](Interval & i) -> auto& { return i.is_integer; }, {}, ""),
  };
  return all;
}

void read_interval(const Node& node, const std::string& path, Choices& choices, Reading& reading) {
  Interval interval;
  const std::size_t before = reading.problems.size();
  read_map(node, interval_keys(), interval, path, reading);
  if (reading.problems.size() > before) return;
  if (!(interval.from < interval.to))
    reading.problems.add(node.place, path, fmt::format("expected from below to, found {}", write_flow(node)));
  if (interval.scale == "log" && !(interval.from > 0))
    reading.problems.add(node.place, path, fmt::format("scale: log needs from above 0, found {}", write_flow(node)));
  constexpr double most = 4294967295.0;
  if (interval.is_integer && (interval.from != std::floor(interval.from) || interval.to != std::floor(interval.to) ||
                              interval.to - interval.from >= most || interval.scale == "log"))
    reading.problems.add(node.place, path, "integer: true needs whole numbers and scale: linear");
  choices.from = interval.from;
  choices.to = interval.to;
  choices.is_log = interval.scale == "log";
  choices.is_integer = interval.is_integer;
}

Choices read_choices(const Node::Entry& entry, const SweepOptions& options, Reading& reading) {
  Choices choices;
  choices.key = entry.key;
  const std::string path = "sweep.keys." + entry.key;
  const std::string expected =
      options.method == "grid" ? "expected a list of values" : "expected a list of values or {from: A, to: B}";
  if (entry.value.is_sequence() && !entry.value.items.empty()) {
    for (const Node& item : entry.value.items) choices.list.push_back(write_flow(item));
  } else if (entry.value.is_map() && options.method == "random") {
    read_interval(entry.value, path, choices, reading);
  } else {
    reading.problems.add(entry.place, path, fmt::format("{}, found {}", expected, entry.value.describe()));
  }
  for (const char* own : {"run.directory", "run.name"})
    if (entry.key == own)
      reading.problems.add(entry.place, path, "cannot vary: each trial has its own directory anyway");
  return choices;
}

std::string draw(const Choices& choices, const SweepOptions& options, std::size_t trial, std::size_t index) {
  const RandomStream stream(options.seed, Purpose::sweep, trial, static_cast<std::uint32_t>(index));
  if (!choices.list.empty()) return choices.list[stream.below(0, static_cast<std::uint32_t>(choices.list.size()))];
  if (choices.is_integer)
    return number_text(choices.from + stream.below(0, static_cast<std::uint32_t>(choices.to - choices.from) + 1));
  const double u = stream.uniform(0);
  const double value = choices.is_log ? choices.from * std::pow(choices.to / choices.from, u)
                                      : choices.from + u * (choices.to - choices.from);
  const std::string text = fmt::format("{:.6g}", value);  // digits that a person can type
  const double rounded = std::stod(text);
  if (rounded < choices.from) return number_text(choices.from);
  return rounded > choices.to ? number_text(choices.to) : text;
}

/// The last key varies fastest.
std::vector<std::string> combination(const std::vector<Choices>& all, std::size_t trial) {
  std::vector<std::string> values(all.size());
  for (std::size_t k = all.size(); k-- > 0; trial /= all[k].list.size())
    values[k] = all[k].list[trial % all[k].list.size()];
  return values;
}

std::size_t count_trials(const SweepSection& section, const std::vector<Choices>& all, const Node& node,
                         Reading& reading) {
  const SweepOptions& options = section.options;
  if (options.method == "random") {
    if (options.trials == 0) reading.problems.add(node.place, "sweep.trials", "missing; method: random needs a number");
    return static_cast<std::size_t>(options.trials);
  }
  if (options.trials > 0)
    reading.problems.add(node.place, "sweep.trials", "has no meaning with method: grid, which tries every combination");
  std::size_t count = 1;
  for (const Choices& choices : all)
    if (count <= most_trials) count *= std::max<std::size_t>(choices.list.size(), 1);
  if (count > most_trials)
    reading.problems.add(node.place, "sweep.keys",
                         fmt::format("more than {} combinations; use method: random", most_trials));
  return count;
}

/// A trial's values come last: those from outside would have no effect.
void check_overrides(const Sweep& sweep, Reading& reading) {
  std::vector<Override> given;
  Problems told_later;  // by the trials
  if (sweep.overrides.reads_environment) given = overrides_from_environment(told_later);
  for (Override& one : overrides_from_sets(sweep.overrides.sets, told_later)) given.push_back(std::move(one));
  for (const Override& one : given)
    for (const std::string& key : sweep.keys)
      if (replaces(key, one.path))
        reading.problems.add({one.origin, 0, 0}, one.path,
                             fmt::format("is varied by the sweep (sweep.keys.{}); leave it out here, or change "
                                         "sweep.keys in the file",
                                         key));
}

void list_trials(const SweepSection& section, const Node& node, Sweep& sweep, Reading& reading) {
  std::vector<Choices> all;
  if (!section.keys.is_map() || section.keys.entries.empty()) {
    reading.problems.add(section.keys.place, "sweep.keys",
                         fmt::format("expected a map of keys to their values, found {}", section.keys.describe()));
    return;
  }
  for (const Node::Entry& entry : section.keys.entries) {
    all.push_back(read_choices(entry, section.options, reading));
    for (const std::string& before : sweep.keys)
      if (replaces(entry.key, before))
        reading.problems.add(entry.place, "sweep.keys." + entry.key,
                             fmt::format("takes the place of what {} says; leave one out{}", before,
                                         before.starts_with(entry.key + ".") ? ", or write it first" : ""));
    sweep.keys.push_back(entry.key);
  }
  check_overrides(sweep, reading);
  const std::size_t count = count_trials(section, all, node, reading);
  if (!reading.problems.empty()) return;
  for (std::size_t t = 0; t < count; ++t) {
    if (section.options.method == "grid") {
      sweep.values.push_back(combination(all, t));
      continue;
    }
    std::vector<std::string>& values = sweep.values.emplace_back();
    for (std::size_t k = 0; k < all.size(); ++k) values.push_back(draw(all[k], section.options, t, k));
  }
}

/// --set sweep.key=value belongs to the section, all others to the trials.
void apply_own_overrides(Node& root, Sweep& sweep, Problems& problems) {
  std::vector<std::string> own, others;
  for (const std::string& set : sweep.overrides.sets) (set.starts_with("sweep.") ? own : others).push_back(set);
  for (const Override& one : overrides_from_sets(own, problems)) apply_override(root, one, problems);
  sweep.overrides.sets = others;
}

Loaded load_with(const Sweep& sweep, std::size_t trial, const std::string& directory) {
  Reading reading;
  Node root = read_root(sweep.text, sweep.name, reading);
  root.remove("sweep");
  std::vector<Override> last;
  const std::string origin = fmt::format("sweep, trial {}", trial);
  for (std::size_t k = 0; k < sweep.keys.size(); ++k)
    last.push_back(
        {sweep.keys[k], origin, parse_value(sweep.values[trial][k], origin, sweep.keys[k], reading.problems)});
  if (!directory.empty()) last.push_back({"run.directory", origin, string_scalar(directory)});
  return read_tree(std::move(root), sweep.name, sweep.folder, sweep.overrides, reading, last);
}

Sweep load_from(Sweep sweep) {
  Reading reading;
  Node root = read_root(sweep.text, sweep.name, reading);
  apply_own_overrides(root, sweep, reading.problems);
  const Node* node = root.find("sweep");
  if (!node) {
    reading.problems.add(root.place, "sweep", "missing; it names the keys to vary (see configs/reference.yaml)");
    reading.problems.throw_if_any();
  }
  SweepSection section;
  read_map(*node, sweep_keys(), section, "sweep", reading);
  reading.problems.throw_if_any();
  sweep.options = section.options;
  list_trials(section, *node, sweep, reading);
  reading.problems.throw_if_any();
  sweep.directory = load_with(sweep, 0, "").config.run.directory;
  return sweep;
}

}  // namespace

std::string Sweep::trial_directory(std::size_t trial) const {
  return (std::filesystem::path(directory) / fmt::format("trial-{:04}", trial)).string();
}

std::string Sweep::describe(std::size_t trial) const {
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < keys.size(); ++k) parts.push_back(keys[k] + "=" + values[trial][k]);
  return join(parts, " ");
}

bool Sweep::is_larger_better() const {
  if (options.goal != "auto") return options.goal == "max";
  return options.metric.ends_with("accuracy");
}

Sweep load_sweep(const std::string& file, const Overrides& overrides) {
  Sweep sweep;
  sweep.text = read_config_file(file);
  sweep.name = file;
  sweep.folder = std::filesystem::path(file).parent_path().string();
  sweep.overrides = overrides;
  return load_from(std::move(sweep));
}

Sweep load_sweep_text(const std::string& text, const std::string& name, const Overrides& overrides) {
  Sweep sweep;
  sweep.text = text;
  sweep.name = name;
  sweep.folder = ".";
  sweep.overrides = overrides;
  return load_from(std::move(sweep));
}

Loaded load_trial(const Sweep& sweep, std::size_t trial) {
  return load_with(sweep, trial, sweep.trial_directory(trial));
}

}  // namespace muster::config
