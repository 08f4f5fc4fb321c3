// Who sums what: the nodes of the replicas, the subtrees each rank and each node contributes, and the cut of a bucket
// into slices. Pure, the same on every rank.
//
//   ranks      0   1 | 2   3        node parts: the maximal subtrees of the node's grains
//   subtrees   a   b | c   d        node 0: a+b (a sum)      node 1: c+d      or, where no sum is possible, c and d as
//   they are
#pragma once

#include <muster/base/ids.hpp>
#include <muster/parallel/data/grains.hpp>

#include <vector>

namespace muster::parallel {

/// A rank's subtree as a source of a sum.
struct Source {
  int replica = 0;
  int subtree = 0;  ///< index in the replica's maximal_subtrees
};

/// What a node contributes to one node of the tree. One source: that rank's buffer, unchanged ("raw").
struct NodePart {
  Subtree range;
  std::vector<Source> sources;
  bool is_raw() const { return sources.size() == 1; }
};

struct ReplicaNode {
  Range replicas;  ///< consecutive
  std::vector<NodePart> parts;
};

struct Topology {
  std::vector<ReplicaNode> nodes;
  std::vector<std::vector<Subtree>> subtrees;  ///< by replica
};

/// node_of: node number per replica, equal numbers consecutive (else an empty topology).
Topology plan_topology(const GrainPlan& plan, const std::vector<int>& node_of);

/// Part `index` of `parts` of a bucket, balanced, cut at multiples of 16 elements (a cache line of floats) from its
/// begin.
Range slice_of(Range bucket, int index, int parts);

}  // namespace muster::parallel
