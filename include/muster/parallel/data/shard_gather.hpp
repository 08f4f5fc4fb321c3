// Sharded optimizer state (stage 1 of ZeRO, Rajbhandari et al. 2020): the flat arena is cut into one shard per replica;
// a replica keeps the optimizer's state of its shard alone, updates the weights there from the summed gradient, and
// the others get the updated weights:
//
//   weights   rank 0  [ A' | b  | c  ]   every rank sends its shard to every    [ A' | B' | C' ]
//             rank 1  [ a  | B' | c  ]   other: R-1 messages out and in,  -->   [ A' | B' | C' ]
//             rank 2  [ a  | b  | C' ]   (R-1)/R of the arena received          [ A' | B' | C' ]
//
// Messages carry the bits as they are, so a sharded run has those of an unsharded one. One rank: nothing is sent.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/comm/communicator.hpp>

#include <memory>
#include <span>
#include <vector>

namespace muster::parallel {

class ShardGather {
 public:
  /// Collective over `data`. shards: one per rank, in order; they tile the arena and may be empty.
  ShardGather(comm::Communicator& data, std::vector<Range> shards);

  /// Collective: every rank's shard of `arena` goes to all others. Returns the seconds it took. Throws Error(comm) at
  /// the deadline.
  double to_all(std::span<float> arena);
  /// Collective: rank 0 returns the whole arena put together from every rank's `mine` (its shard alone), others an
  /// empty one. Throws Error(comm) at the deadline.
  std::vector<float> to_root(std::span<const float> mine);

 private:
  std::span<float> cut(std::span<float> arena, int rank) const;
  void send(std::span<const float> values, int rank);
  void receive(std::span<float> values, int rank);
  void wait(const std::string& what);

  std::unique_ptr<comm::Communicator> ranks_;  // its own, so that its messages meet no others
  std::vector<Range> shards_;
  std::vector<comm::RequestPtr> requests_;
  std::vector<int> peers_;
};

}  // namespace muster::parallel
