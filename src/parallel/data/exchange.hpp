// The part of a reduction that goes between nodes (or, flat, between all ranks), one bucket at a time, run by the
// nodes' leaders. Every leader owns a slice of the bucket:
//
//   node 0:  [ A0 | B0 | C0 ]    1. sends B0 to node 1, C0 to node 2; gets A1, A2       N-1 messages
//   node 1:  [ A1 | B1 | C1 ]    2. A = tree(A0, A1, A2)
//   node 2:  [ A2 | B2 | C2 ]    3. sends A to nodes 1 and 2; gets B, C                  N-1 messages
//
// A node's contribution may be several parts (subtrees that do not join inside the node); they travel in one message.
#pragma once

#include "parallel/data/topology.hpp"
#include "parallel/data/tree_sum.hpp"

#include <muster/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace muster::parallel {

/// What is the same for all buckets.
struct ExchangePlan {
  ExchangePlan(const GrainPlan& plan, const Topology& topology, bool is_bf16);

  int nodes() const { return static_cast<int>(encodings.size()); }
  /// Bytes of a message with `elements` elements of each of the node's parts.
  std::int64_t message_bytes(int node, std::int64_t elements) const;

  std::vector<std::vector<Encoding>> encodings;  ///< by node, by part, as they travel
  TreeSum total;                                 ///< over the parts of all nodes in order
  bool is_bf16;
};

/// One bucket under way. Objects are kept and used again in the next step, so their memory is too.
class Exchange {
 public:
  Exchange(comm::Communicator& leaders, const ExchangePlan& plan) : leaders_(leaders), plan_(plan) {}

  /// own: this node's parts (element 0 of the arena), result: element 0 of the arena's result. tag: even, its successor
  /// is used too.
  void start(Range bucket, const std::vector<Part>& own, float* result, int tag, int threads);
  /// Moves on; true when the result of the bucket is complete and nothing of `own` is in use.
  bool advance();
  /// Leaders this exchange still waits for.
  void add_missing(std::vector<int>& missing) const;

 private:
  void send_contributions();
  void sum_own_slice();
  std::span<const std::byte> pack(int node, Range slice);
  bool are_done(std::vector<comm::RequestPtr>& requests) const;

  comm::Communicator& leaders_;
  const ExchangePlan& plan_;
  Range bucket_;
  std::vector<Part> own_;
  float* result_ = nullptr;
  int tag_ = 0;
  int threads_ = 1;
  bool is_summed_ = false;
  // By node; empty requests where nothing is to be sent or received.
  std::vector<comm::RequestPtr> sends_, contributions_, results_, result_sends_;
  std::vector<std::vector<std::byte>> outgoing_, incoming_;
  std::vector<std::vector<std::uint16_t>> incoming_results_;
  std::vector<std::uint16_t> outgoing_result_;
};

}  // namespace muster::parallel
