// What the ways between ranks give, measured between pairs of each class (of one node, of two) and over all ranks by
// the reduction that training uses.
#pragma once

#include <muster/comm/communicator.hpp>

#include <string>
#include <vector>

namespace muster::doctor {

/// Messages between two ranks, one pair at a time.
struct PairFacts {
  int a = 0, b = 0;
  double word_s = 0;       ///< one way, 8 bytes
  double bytes_per_s = 0;  ///< one way, 16 MiB in one message
};

struct ReductionFacts {
  std::string how;         ///< as the reducer describes itself
  std::size_t bytes = 0;   ///< of a gradient
  double seconds = 0;      ///< from the start to the sum on all ranks; the slowest rank's
  double bytes_per_s = 0;  ///< through a rank: 2 (R - 1) / R of the gradient in that time
};

struct LinkFacts {
  double copy_bytes_per_s = 0;             ///< memcpy by all ranks at once, the slowest
  std::vector<PairFacts> within;           ///< at most one, of rank 0's node
  std::vector<PairFacts> between;          ///< rank 0 and the first rank of each other node (64 at most)
  std::vector<ReductionFacts> reductions;  ///< inside rank 0's node and over all ranks, where these differ; none alone
  std::vector<std::string> one_sided;      ///< a line per kind of window, as training finds it
};

/// Collective; the same on every rank. Takes about a second. Throws Error(launch) where one-sided memory does not work.
LinkFacts measure_links(comm::Communicator& world);

}  // namespace muster::doctor
