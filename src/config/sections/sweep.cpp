// sweep: which keys vary, how, and what decides.
#include "config/sweep_section.hpp"

namespace muster::config {

const std::vector<Key<SweepSection>>& sweep_keys() {
  static const std::vector<Key<SweepSection>> all = [] {
    Key<SweepSection> varied;
    varied.facts.path = "keys";
    varied.facts.type = "map of any keys";
    varied.facts.meaning = "values to try: a list, or with random {from, to, scale: linear | log, integer: true}";
    varied.facts.example = "{optimizer.lr: [0.1, 0.01], data.batch: [32, 64]}";
    varied.facts.is_required = true;
    varied.set = [](const Node& node, SweepSection& section, const std::string&, Reading&) { section.keys = node; };
    varied.get = [](const SweepSection&) -> std::optional<Node> { return std::nullopt; };
    return std::vector<Key<SweepSection>>{
        key<SweepSection>(
            "ranks_per_trial", [](SweepSection & s) -> auto& { return s.options.ranks_per_trial; }, at_least(1),
            "the job's ranks are split into groups of so many, each with a trial of its own"),
        key<SweepSection>(
            "method", [](SweepSection & s) -> auto& { return s.options.method; }, choice({"grid", "random"}),
            "grid: every combination of the lists; random: as many draws as trials says"),
        key<SweepSection>(
            "trials", [](SweepSection & s) -> auto& { return s.options.trials; }, at_least_if_stated(1, 100000),
            "number of trials, with random"),
        key<SweepSection>(
            "seed", [](SweepSection & s) -> auto& { return s.options.seed; }, at_least(0),
            "the draws of random follow from it"),
        key<SweepSection>(
            "metric", [](SweepSection & s) -> auto& { return s.options.metric; }, {},
            "ranks the trials: its last value in metrics.jsonl; test. in front: of the evaluations"),
        key<SweepSection>(
            "goal", [](SweepSection & s) -> auto& { return s.options.goal; }, choice({"auto", "min", "max"}),
            "auto: max for an accuracy, min for all else"),
        varied,
    };
  }();
  return all;
}

}  // namespace muster::config
