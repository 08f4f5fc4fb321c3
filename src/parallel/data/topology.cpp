#include "parallel/data/topology.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <set>

namespace muster::parallel {
namespace {

constexpr std::int64_t line_floats = 16;

std::vector<NodePart> parts_of_node(const GrainPlan& plan, const Topology& topology, Range replicas) {
  const Range grains{plan.grains_of(static_cast<int>(replicas.begin)).begin,
                     plan.grains_of(static_cast<int>(replicas.end) - 1).end};
  std::vector<NodePart> parts;
  for (const Subtree& range : maximal_subtrees(plan.grains, grains)) parts.push_back({range, {}});
  for (auto r = static_cast<int>(replicas.begin); r < replicas.end; ++r) {
    const auto& subtrees = topology.subtrees[static_cast<std::size_t>(r)];
    for (std::size_t j = 0; j < subtrees.size(); ++j) {
      const auto home = std::ranges::find_if(parts, [&](const NodePart& part) {
        return part.range.first <= subtrees[j].first && subtrees[j].last <= part.range.last;
      });
      MUSTER_CHECK(home != parts.end(), "subtree [{}, {}) of replica {} has no place", subtrees[j].first,
                   subtrees[j].last, r);
      home->sources.push_back({r, static_cast<int>(j)});
    }
  }
  return parts;
}

}  // namespace

Topology plan_topology(const GrainPlan& plan, const std::vector<int>& node_of) {
  MUSTER_CHECK_EQ(node_of.size(), static_cast<std::size_t>(plan.replicas));
  Topology topology;
  for (int r = 0; r < plan.replicas; ++r) topology.subtrees.push_back(maximal_subtrees(plan.grains, plan.grains_of(r)));
  std::set<int> seen;
  for (int begin = 0; begin < plan.replicas;) {
    int end = begin;
    while (end < plan.replicas && node_of[static_cast<std::size_t>(end)] == node_of[static_cast<std::size_t>(begin)])
      ++end;
    if (!seen.insert(node_of[static_cast<std::size_t>(begin)]).second) return {};
    topology.nodes.push_back({{begin, end}, parts_of_node(plan, topology, {begin, end})});
    begin = end;
  }
  return topology;
}

Range slice_of(Range bucket, int index, int parts) {
  const std::int64_t lines = (bucket.size() + line_floats - 1) / line_floats;
  const auto boundary = [&](std::int64_t i) {
    return std::min(bucket.begin + lines * i / parts * line_floats, bucket.end);
  };
  return {boundary(index), boundary(index + 1)};
}

}  // namespace muster::parallel
