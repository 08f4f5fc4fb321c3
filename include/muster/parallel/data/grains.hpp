// How a global batch is cut, and in which order its parts are summed.
//
// The batch of B rows is cut into G grains: with U = ceil(B / unit) units (unit: the group of a group-scope batch norm,
// else one row), grain g holds the units [U*g/G, U*(g+1)/G). A replica owns a contiguous run of grains and runs each as
// one micro-batch. Sums go along one fixed binary tree over the grain index: the node of level l at k covers grains [k
// 2^l, (k+1) 2^l); a missing right child adds nothing. A replica sums its grains to maximal subtrees; whoever finishes
// the tree adds them in index order. In bitwise mode G comes from the config, so the tree, hence every bit, is the same
// for any rank count; in fast mode G = replicas x accumulate.
//
//   G = 6, 2 replicas:      0 1 | 2 3 | 4 5         replica 0 owns 0-2: subtrees {0,1} {2}
//                           \_/   \_/   \_/         replica 1 owns 3-5: subtrees {3} {4,5}
//                            \____/     /           the owner of a slice adds ({01} + ({2}+{3})) + {45}
//                                \_____/
#pragma once

#include <muster/base/ids.hpp>

#include <cstdint>
#include <vector>

namespace muster::parallel {

struct GrainPlan {
  std::int64_t grains = 1;
  std::int64_t unit = 1;  ///< grain boundaries are multiples of this many rows
  int replicas = 1;
  int replica = 0;

  Range grains_of(int of_replica) const;  ///< contiguous, balanced: [G r/R, G (r+1)/R)
  Range rows_of_grain(std::int64_t grain, std::int64_t batch) const;
  Range rows_of_replica(int of_replica, std::int64_t batch) const;
  /// The distinct sizes > 0 of this replica's grains for this batch, largest first.
  std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch) const;
};

/// A node of the sum tree: grains [first, last) below it.
struct Subtree {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const Subtree&) const = default;
};

/// The maximal subtrees of the tree over `grains` leaves that lie inside `owned`, in index order.
std::vector<Subtree> maximal_subtrees(std::int64_t grains, Range owned);

/// One addition: parts[into] += parts[from].
struct Addition {
  int into = 0;
  int from = 0;
  bool operator==(const Addition&) const = default;
};
/// The tree's additions over parts that tile one of its nodes (without a gap, in index order): applied in order they
/// leave the node's sum in parts[0].
std::vector<Addition> additions(std::int64_t grains, const std::vector<Subtree>& parts);

/// What happens when a grain has been computed into buffer 0.
struct GrainMoves {
  int copy_to = -1;                 ///< buffer that takes a copy of buffer 0; -1: none
  std::vector<Addition> additions;  ///< then these, between buffers
};

/// How a replica sums its grains along the tree while computing them one after the other into the same buffer: as a
/// binary counter does, the grains seen so far are kept as the sums of complete nodes, one buffer per binary digit.
struct Accumulation {
  int buffers = 1;                ///< all of them, buffer 0 included
  std::vector<int> of_subtree;    ///< buffer in which each of maximal_subtrees(grains, owned) ends up
  std::vector<GrainMoves> moves;  ///< per owned grain, in order
};
Accumulation plan_accumulation(std::int64_t grains, Range owned);

}  // namespace muster::parallel
