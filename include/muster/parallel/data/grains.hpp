// How a global batch is cut, and in which order its parts are summed.
//
// The batch of B rows is cut into G grains, grain g = rows [B*g/G, B*(g+1)/G) rounded to multiples of `unit` (the group of
// a group-scope batch norm). A replica owns a contiguous run of grains and runs each as one micro-batch. Sums go along one
// fixed binary tree over the grain index: the node of level l at k covers grains [k 2^l, (k+1) 2^l); a missing right
// child adds nothing. A replica sums its grains to maximal subtrees; whoever finishes the tree adds them in index order.
// In bitwise mode G comes from the config, so the tree, hence every bit, is the same for any rank count; in fast mode
// G = replicas x accumulate.
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
  std::int64_t unit = 1;      ///< grain boundaries are multiples of this many rows
  int replicas = 1;
  int replica = 0;

  Range grains_of(int of_replica) const;                       ///< contiguous, balanced: [G r/R, G (r+1)/R)
  Range rows_of_grain(std::int64_t grain, std::int64_t batch) const;
  Range rows_of_replica(int of_replica, std::int64_t batch) const;
  /// Largest number of rows any grain of this replica has for this batch, and all distinct sizes > 0.
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

/// One addition of the tree: parts[into] += parts[from]. Applied in order to the parts of the listed subtrees (all of the
/// tree's leaves covered exactly once) it leaves the total in parts[0].
struct Addition {
  int into = 0;
  int from = 0;
};
std::vector<Addition> additions(std::int64_t grains, const std::vector<Subtree>& parts);

}  // namespace muster::parallel
