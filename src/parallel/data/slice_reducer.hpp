// The gradient reducer for any number of nodes and ranks per node: inside a node through shared memory, between nodes
// by messages. One node of R ranks, R nodes of one rank, and anything between are the same text; a single rank with
// nothing to add to is the case in which every loop is empty.
//
// A bucket's life on every rank:   announced -> (all local ranks announced) own slice of the node's sums -> summed
//   and on a leader of several nodes:           (all local ranks summed) exchange with the other leaders -> completed
#pragma once

#include "parallel/data/exchange.hpp"
#include "parallel/data/node_memory.hpp"

#include <muster/parallel/data/reducer.hpp>

#include <memory>
#include <string>
#include <vector>

namespace muster::parallel {

class SliceReducer final : public GradientReducer {
 public:
  /// Collective over `data`. node_of: node number per replica. local: the ranks of this node (null for a node of one);
  /// leaders: the first ranks of all nodes (null elsewhere, and with one node).
  SliceReducer(comm::Communicator& data, const GrainPlan& plan, const ReducerOptions& options,
               const std::vector<int>& node_of, std::unique_ptr<comm::Communicator> local,
               std::unique_ptr<comm::Communicator> leaders, std::string description);

  int partials() const override { return static_cast<int>(buffers_.size()); }
  std::span<float> partial(int k) override { return buffers_[static_cast<std::size_t>(k)]; }
  void begin_step(std::int64_t step) override;
  void ready(Slice bucket) override;
  void progress() override;
  ReduceTimes finish() override;
  std::span<const float> result() const override { return result_; }
  std::string describe() const override { return description_; }
  void close() override;

 private:
  bool is_alone() const { return plan_.replicas == 1; }
  bool is_leader() const { return local_rank_ == 0; }
  bool has_exchange() const { return topology_.nodes.size() > 1; }
  const ReplicaNode& node() const { return topology_.nodes[node_index_]; }
  int local_size() const { return static_cast<int>(node().replicas.size()); }

  void allocate();
  bool is_done();
  void advance();
  bool have_all(std::atomic<std::uint64_t> Flags::*stage, std::uint64_t count);
  void sum_node_slice(Slice bucket);
  Part source(const Source& source, std::int64_t element);
  void advance_exchanges();
  void collect_missing();

  comm::Communicator& data_;
  GrainPlan plan_;
  ReducerOptions options_;
  std::unique_ptr<comm::Communicator> local_;
  std::unique_ptr<comm::Communicator> leaders_;
  std::string description_;
  Topology topology_;
  std::size_t node_index_ = 0;
  int local_rank_ = 0;

  std::unique_ptr<NodeMemory> memory_;
  std::vector<HostArray> own_;
  std::vector<std::span<float>> buffers_;
  std::span<float> result_;
  std::vector<TreeSum> node_sums_;  ///< by part of this node
  std::vector<Part> node_parts_;    ///< their values, element 0 of the arena; on the leader
  std::vector<Part> parts_;         ///< of the sum at hand

  std::vector<Slice> buckets_;  ///< of this step
  std::uint64_t first_ = 0;     ///< number of the step's first bucket since the start
  std::uint64_t summed_ = 0;
  std::uint64_t started_ = 0;  ///< exchanges
  std::uint64_t completed_ = 0;
  std::unique_ptr<ExchangePlan> exchange_plan_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  ///< by bucket of the step
  std::vector<int> missing_;
  double hidden_s_ = 0;
};

}  // namespace muster::parallel
