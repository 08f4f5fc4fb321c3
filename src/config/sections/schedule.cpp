// schedule: one entry per kind; every kind may start with a linear warm-up, and `warmup_<kind>` is the kind with a
// warm-up that must be stated.
#include "config/table.hpp"

namespace muster::config {
namespace {

using optim::ScheduleOptions;
using ScheduleKey = Key<ScheduleOptions>;

Kind<ScheduleOptions> kind(const std::string& name, const std::string& meaning, std::vector<ScheduleKey> own) {
  using S = ScheduleOptions;
  Kind<S> made{name, meaning, std::move(own), [name](S& s) { s = {}, s.kind = name; }};
  made.keys.push_back(key<S>(
                          "warmup_epochs", [](S & s) -> auto& { return s.warmup_epochs; }, above_if_stated(0, 1e6),
                          "length of a linear warm-up; either this or warmup_steps")
                          .unit("epochs"));
  made.keys.push_back(key<S>(
                          "warmup_steps", [](S & s) -> auto& { return s.warmup_steps; }, at_least_if_stated(1),
                          "length of a linear warm-up")
                          .unit("steps"));
  made.keys.push_back(key<S>(
      "warmup_start", [](S & s) -> auto& { return s.warmup_start; }, between(0, 1),
      "factor at the first step; rises to 1 at the first step after the warm-up"));
  return made;
}

ScheduleKey min_factor() {
  return key<ScheduleOptions>(
      "min_factor", [](ScheduleOptions & s) -> auto& { return s.min_factor; }, between(0, 1), "factor at the end");
}
ScheduleKey gamma(const std::string& meaning) {
  return key<ScheduleOptions>(
      "gamma", [](ScheduleOptions & s) -> auto& { return s.gamma; }, above(0), meaning);
}

const std::vector<Kind<ScheduleOptions>>& kinds() {
  using S = ScheduleOptions;
  static const std::vector<Kind<S>> all{
      kind("constant", "1 all the time", {}),
      kind("step", "times gamma at each boundary",
           {key<S>(
                "at_epochs", [](S & s) -> auto& { return s.at_epochs; }, above(0), "boundaries, rising")
                .unit("epochs")
                .required()
                .example("[30, 60]"),
            gamma("factor at each boundary")}),
      kind("exponential", "times gamma after every epoch, in steps as PyTorch's ExponentialLR",
           {gamma("factor per epoch")}),
      kind("cosine", "half a cosine from 1 to min_factor (Loshchilov and Hutter 2017)", {min_factor()}),
      kind("polynomial", "min_factor + (1 - min_factor) (1 - t)^power, t from 0 to 1",
           {min_factor(), key<S>(
                              "power", [](S & s) -> auto& { return s.power; }, above(0), "1: a straight line")}),
  };
  return all;
}

const Kind<ScheduleOptions>& kind_named(const std::string& name) {
  return *std::find_if(kinds().begin(), kinds().end(), [&](const auto& one) { return one.name == name; });
}

constexpr std::string_view warmup_prefix = "warmup_";

std::vector<std::string> all_names() {
  std::vector<std::string> names = names_of(kinds());
  for (const auto& one : kinds()) names.push_back(std::string(warmup_prefix) + one.name);
  return names;
}

std::string hint(const std::string& path) {
  const std::string name = path.substr(path.rfind('.') + 1);
  std::vector<std::string> owners;
  for (const auto& one : kinds())
    for (const auto& each : one.keys)
      if (each.facts.path == name) owners.push_back(one.name);
  return owners.empty() ? "" : "not a key of this schedule; it belongs to " + join(owners, ", ");
}

void read_schedule(const Node& node, Config& config, const std::string& full, Reading& reading) {
  auto chosen = choose(node, all_names(), full, reading);
  if (!chosen) return;
  const bool must_warm_up = chosen->name.starts_with(warmup_prefix);
  const std::string name = must_warm_up ? chosen->name.substr(warmup_prefix.size()) : chosen->name;
  const std::string path = full + "." + chosen->name;
  ScheduleOptions& schedule = config.schedule;
  read_keys(kind_named(name), *chosen, schedule, path, reading, hint);
  const bool has_epochs = chosen->keys && chosen->keys->find("warmup_epochs"),
             has_steps = chosen->keys && chosen->keys->find("warmup_steps");
  if (has_epochs && has_steps)
    reading.problems.add(chosen->keys->find("warmup_steps")->place, path + ".warmup_steps",
                         "excludes 'warmup_epochs': give one of the two");
  if (must_warm_up && !has_epochs && !has_steps)
    reading.problems.add(chosen->place, path,
                         "missing the length of the warm-up; expected warmup_epochs or warmup_steps");
  if (!std::is_sorted(schedule.at_epochs.begin(), schedule.at_epochs.end(), std::less_equal<>()) &&
      schedule.at_epochs.size() > 1)
    reading.problems.add(chosen->keys->find("at_epochs")->place, path + ".at_epochs", "expected rising boundaries");
}

}  // namespace

std::vector<ConfigKey> schedule_keys() {
  ConfigKey made;
  made.facts.path = "schedule";
  made.facts.type = join(all_names(), " | ");
  made.facts.meaning = "learning rate over time";
  made.facts.groups = groups_of(kinds());
  made.set = read_schedule;
  made.get = [](const Config& config) { return write_kind(kind_named(config.schedule.kind), config.schedule); };
  made.get_default = [](const Config& config) { return write_default(kind_named(config.schedule.kind)); };
  return {made};
}

}  // namespace muster::config
