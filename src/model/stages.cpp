#include <muster/model/stages.hpp>

#include <muster/base/check.hpp>
#include <muster/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace muster::model {
namespace {

const Node& node_at(const Network& network, int node) { return network.nodes[static_cast<std::size_t>(node)]; }
int count_of(const Network& network) { return static_cast<int>(network.nodes.size()); }

std::vector<int> crossing_values(const Network& network, int position) {
  std::vector<int> values;
  for (int i = position; i < count_of(network); ++i)
    for (int source : node_at(network, i).inputs)
      if (source != network_input && source < position) values.push_back(source);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Per node: whether it, or something before it, is trained, so that its value has a gradient.
std::vector<bool> trained_values(const Network& network) {
  std::vector<bool> is_trained;
  for (const Node& node : network.nodes)
    is_trained.push_back(!node.params.empty() || std::ranges::any_of(node.inputs, [&](int source) {
      return source != network_input && is_trained[static_cast<std::size_t>(source)];
    }));
  return is_trained;
}

double flops_of(const Network& network, int node) {
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < node_at(network, node).inputs.size(); ++k)
    shapes.push_back(network.input_shape(node_at(network, node), k));
  return device::forward_flops(node_at(network, node).spec, shapes);
}

/// An op without FLOPs still reads and writes its elements.
double cost_of(const Network& network, int node) {
  return flops_of(network, node) + static_cast<double>(node_at(network, node).output.elements());
}

double elements_of(const Network& network, const std::vector<int>& values) {
  double elements = 0;
  for (int value : values) elements += static_cast<double>(node_at(network, value).output.elements());
  return elements;
}

/// What a choice of cuts costs: the largest stage, then the elements sent.
using Price = std::pair<double, double>;

}  // namespace

std::vector<CutPoint> cut_points(const Network& network) {
  int last_reader = -1;  // of the network's input
  for (int i = 0; i < count_of(network); ++i)
    if (std::ranges::count(node_at(network, i).inputs, network_input) > 0) last_reader = i;
  std::vector<CutPoint> points;
  for (int position = last_reader + 1; position < count_of(network); ++position)
    points.push_back({position, crossing_values(network, position)});
  return points;
}

StageCut cut_stages(const Network& network, int stages) {
  MUSTER_CHECK(stages >= 1, "{} stages", stages);
  const std::vector<CutPoint> points = cut_points(network);
  if (stages > 1 && points.size() + 1 < static_cast<std::size_t>(stages))
    fail(ExitCode::usage,
         "parallel.grid.pipeline: {} stages need {} places to cut the network, it has {}; use at most {} stage{}",
         stages, stages - 1, points.size(), points.size() + 1, points.empty() ? "" : "s");

  std::vector<double> cost_before{0}, flops_before{0};  // of all nodes before
  for (int i = 0; i < count_of(network); ++i) {
    cost_before.push_back(cost_before.back() + cost_of(network, i));
    flops_before.push_back(flops_before.back() + flops_of(network, i));
  }
  std::vector<int> places{0};  // where a stage may begin, and the end
  std::vector<double> sent{0};
  for (const CutPoint& point : points)
    places.push_back(point.position), sent.push_back(elements_of(network, point.values));
  places.push_back(count_of(network)), sent.push_back(0);

  // best[s][p]: the first s stages end at places[p].
  const auto count = places.size();
  const Price none{std::numeric_limits<double>::infinity(), 0};
  std::vector<std::vector<Price>> best(static_cast<std::size_t>(stages) + 1, std::vector<Price>(count, none));
  std::vector<std::vector<std::size_t>> before(best.size(), std::vector<std::size_t>(count, 0));
  best[0][0] = {0, 0};
  for (std::size_t s = 1; s < best.size(); ++s)
    for (std::size_t p = 1; p < count; ++p)
      for (std::size_t q = 0; q < p; ++q) {
        const double cost =
            cost_before[static_cast<std::size_t>(places[p])] - cost_before[static_cast<std::size_t>(places[q])];
        const Price price{std::max(best[s - 1][q].first, cost), best[s - 1][q].second + sent[p]};
        if (price < best[s][p]) best[s][p] = price, before[s][p] = q;
      }

  StageCut cut;
  std::size_t place = count - 1;
  for (std::size_t s = best.size() - 1; s > 0; --s, place = before[s + 1][place])
    cut.boundaries.push_back(places[place]);
  cut.boundaries.push_back(0);
  std::ranges::reverse(cut.boundaries);
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s)
    cut.flops.push_back(flops_before[static_cast<std::size_t>(cut.boundaries[s + 1])] -
                        flops_before[static_cast<std::size_t>(cut.boundaries[s])]);
  return cut;
}

namespace {

/// The stages whose nodes use a parameter.
std::vector<int> stages_with(const Network& whole, const StageCut& cut, int param) {
  std::vector<int> stages;
  for (int s = 0; s < cut.stages(); ++s)
    for (int i = cut.boundaries[static_cast<std::size_t>(s)]; i < cut.boundaries[static_cast<std::size_t>(s) + 1]; ++i)
      if (std::ranges::count(node_at(whole, i).params, param) > 0 && (stages.empty() || stages.back() != s))
        stages.push_back(s);
  return stages;
}

/// Copies the nodes of one stage, with indices of their own.
class StageBuilder {
 public:
  StageBuilder(const Network& whole, const StageCut& cut, int stage)
      : whole_(whole),
        cut_(cut),
        begin_(cut.boundaries[static_cast<std::size_t>(stage)]),
        end_(cut.boundaries[static_cast<std::size_t>(stage) + 1]) {
    stage_.input = whole.input;
    stage_.output = whole.output;
    stage_.loss = whole.loss;
    stage_.top_k = whole.top_k;
    const std::vector<bool> is_trained = trained_values(whole);
    if (stage > 0)
      for (int value : entering_ = crossing_values(whole, begin_))
        stage_.entering.push_back({node_at(whole, value).output, is_trained[static_cast<std::size_t>(value)]});
    for (int i = begin_; i < end_; ++i) add(node_at(whole, i));
    if (stage + 1 == cut.stages()) return;
    for (int value : crossing_values(whole, end_)) {
      const Node& node = node_at(whole, value);
      stage_.nodes.push_back({node.name + " to the next stage",
                              node.where,
                              device::ReshapeSpec{node.output},
                              {local(value)},
                              node.output,
                              {},
                              {}});
      ++stage_.leaving;
    }
  }

  Network take() { return std::move(stage_); }

 private:
  /// A node of the whole network as a source in this stage.
  int local(int source) const {
    if (source == network_input || source >= begin_) return source == network_input ? source : source - begin_;
    const auto found = std::ranges::find(entering_, source);
    MUSTER_CHECK(found != entering_.end(), "node {} does not enter the stage from {}", source, begin_);
    return entering_value(static_cast<std::size_t>(found - entering_.begin()));
  }

  void add(const Node& node) {
    Node copy = node;
    for (int& source : copy.inputs) source = local(source);
    for (int& param : copy.params) {
      const auto [place, is_new] = params_.try_emplace(param, static_cast<int>(stage_.params.size()));
      if (is_new) {
        stage_.params.push_back(whole_.params[static_cast<std::size_t>(param)]);
        const std::vector<int> holders = stages_with(whole_, cut_, param);
        if (holders.size() > 1) stage_.params.back().holders = holders;
      }
      param = place->second;
    }
    for (int& state : copy.states) {
      stage_.states.push_back(whole_.states[static_cast<std::size_t>(state)]);
      state = static_cast<int>(stage_.states.size()) - 1;
    }
    stage_.nodes.push_back(std::move(copy));
  }

  const Network& whole_;
  const StageCut& cut_;
  int begin_, end_;
  std::vector<int> entering_;
  std::map<int, int> params_;
  Network stage_;
};

}  // namespace

Network stage_network(const Network& whole, const StageCut& cut, int stage) {
  MUSTER_CHECK(0 <= stage && stage < cut.stages(), "stage {} of {}", stage, cut.stages());
  if (cut.stages() == 1) return whole;
  return StageBuilder(whole, cut, stage).take();
}

std::vector<std::string> describe(const Network& whole, const StageCut& cut) {
  double all = 0;
  for (double flops : cut.flops) all += flops;
  std::vector<std::string> lines;
  for (int s = 0; s < cut.stages(); ++s) {
    const auto begin = static_cast<std::size_t>(cut.boundaries[static_cast<std::size_t>(s)]);
    const auto end = static_cast<std::size_t>(cut.boundaries[static_cast<std::size_t>(s) + 1]);
    const Network part = stage_network(whole, cut, s);
    const double share = all > 0 ? 100 * cut.flops[static_cast<std::size_t>(s)] / all : 0;
    const std::string first = whole.nodes[begin].name, last = whole.nodes[end - 1].name;
    std::string line = fmt::format("stage {}: {} layer{}, {} parameters, {:.1f} % of the FLOPs: {}", s, end - begin,
                                   end - begin == 1 ? "" : "s", part.parameter_count(), share, first);
    if (end - begin > 1) line += " ... " + last;
    if (s + 1 < cut.stages())
      line += fmt::format("; sends {:.0f} numbers per sample",
                          elements_of(whole, crossing_values(whole, static_cast<int>(end))));
    lines.push_back(line);
  }
  return lines;
}

}  // namespace muster::model
