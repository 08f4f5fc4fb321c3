// Cutting a network into stages, for a pipeline: stage s is a stretch of the nodes in their order of execution. What
// crosses a cut is sent: the values that a node before it makes and a node behind it reads, one or several (a residual
// branch and its stem). A value may cross several cuts; the stages between pass it on.
//
//   node    0    1    2    3    4            cut at 3: the values of 1 and 2 cross
//           x -> a -> b -> c -> add -> y     cut at 2: the value of 1 crosses
//                 \____________/             cut at 1: that of 0
#pragma once

#include <muster/model/network.hpp>

#include <string>
#include <vector>

namespace muster::model {

/// A place where a network can be cut: before node `position`.
struct CutPoint {
  int position = 0;
  std::vector<int> values;  ///< nodes whose values cross, ascending
};

/// Every place where only values of nodes cross: behind the last reader of the network's input.
std::vector<CutPoint> cut_points(const Network& network);

/// Nodes of each stage: stage s has [boundaries[s], boundaries[s + 1]).
struct StageCut {
  std::vector<int> boundaries;
  std::vector<double> flops;  ///< per stage: forward, of one sample

  int stages() const { return static_cast<int>(flops.size()); }
};

/// The cut with the smallest largest stage by counted cost (FLOPs; what costs none counts by its elements); among equal
/// ones that which sends fewest values. Throws Error(usage) where the network has too few places to be cut.
StageCut cut_stages(const Network& network, int stages);

/// The part of one stage as a network of its own: what enters it (Network::entering), its nodes, and one node for each
/// value that leaves, in plain order (Network::leaving). Parameters and running values keep their names and start
/// values; a parameter that nodes of several stages use (tied weights) is in all of them (ParamInfo::holders). Of one
/// stage: the network itself.
Network stage_network(const Network& whole, const StageCut& cut, int stage);

/// One line per stage: layers, parameters, share of the FLOPs, values sent to the next stage per sample.
std::vector<std::string> describe(const Network& whole, const StageCut& cut);

}  // namespace muster::model
