// The buffers of the ranks of one node: in shared memory, or private for a node of one. Each rank's part holds its
// flags and its subtrees' buffers; the leader's part also the sums of the node and the result, which all ranks read.
//
// Who may write what, and why nobody reads while another writes: see the table in reducer.cpp.
#pragma once

#include "parallel/data/host_array.hpp"
#include "parallel/data/topology.hpp"

#include <muster/comm/communicator.hpp>

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace muster::parallel {

/// How many buckets since the start a rank has brought how far; each word has one writer and only grows.
struct Flags {
  alignas(64) std::atomic<std::uint64_t> announced;  ///< contribution final
  alignas(64) std::atomic<std::uint64_t> summed;     ///< own slice of the node's sums written
  alignas(64) std::atomic<std::uint64_t> completed;  ///< leader: result there (several nodes only)
};

class NodeMemory {
 public:
  /// Collective over `node` (null: a node of one). shared_buffers: per local rank; own counts include the private rest.
  NodeMemory(comm::Communicator* node, const std::vector<int>& shared_buffers, int node_sums, std::int64_t elements);

  Flags& flags(int local_rank) { return *parts_[static_cast<std::size_t>(local_rank)].flags; }
  float* buffer(int local_rank, int index) {
    return parts_[static_cast<std::size_t>(local_rank)].floats + index * stride_;
  }
  float* node_sum(int index) { return extra_ + index * stride_; }
  std::span<float> result() { return {extra_ + node_sums_ * stride_, static_cast<std::size_t>(elements_)}; }
  void close();  ///< collective

 private:
  struct PartView {
    Flags* flags;
    float* floats;
  };
  std::int64_t elements_;
  std::int64_t stride_;
  int node_sums_;
  std::unique_ptr<comm::SharedSegment> segment_;
  HostArray own_;
  std::vector<PartView> parts_;
  float* extra_ = nullptr;
};

}  // namespace muster::parallel
