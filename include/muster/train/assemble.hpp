// The one factory: from a config and the job's ranks to everything a replica needs to train. Members are declared in
// order of dependence, so destruction is the reverse. Owned by the training command.
#pragma once

#include <muster/comm/communicator.hpp>
#include <muster/model/network.hpp>
#include <muster/model/stages.hpp>
#include <muster/parallel/grid.hpp>
#include <muster/parallel/shards.hpp>
#include <muster/train/options.hpp>
#include <muster/train/step.hpp>

#include <memory>
#include <string>
#include <vector>

namespace muster::train {

/// How the batch is cut for this config and number of replicas: bitwise mode takes the grains of the config, fast mode
/// one per replica and accumulation.
parallel::GrainPlan grain_plan(const Config& config, const model::Network& network, int replicas, int replica);

/// Compute threads per rank: as configured, else 1 in bitwise mode, else the given cores (LaunchFacts::cores_per_rank).
int thread_count(const Config& config, int cores);

/// A stated name of no_decay that no parameter ends in would silently do nothing: Error(usage). The default list is for
/// any network.
void check_no_decay(const optim::OptimizerOptions& options, const model::Network& network);

/// The network with its parameters and optimizer state, as laid out by the program that will train it; not yet able to
/// compute. A parameter server needs no more than this.
class TrainableModel {
 public:
  /// dataset_size: samples of an epoch. place: also says which stage of the network this is. layouts: of the
  /// parameters, in the network's order; empty: as the largest grain's kernels like them. Throws Error(usage | device).
  TrainableModel(const Config& config, const parallel::GridPlace& place, std::int64_t dataset_size, int threads,
                 const std::vector<device::TensorDesc>& layouts = {});

  const Config& config;
  int threads;
  model::Network whole;    ///< all stages
  model::StageCut cut;     ///< of the whole network
  model::Network network;  ///< this stage's part; of one stage: the whole
  parallel::GrainPlan plan;
  std::vector<std::int64_t> batch_sizes;  ///< global batches that occur: full and tail
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<ReplicaPrograms> programs;
  std::unique_ptr<model::ParameterStore> store;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<std::unique_ptr<device::Buffer>> state_buffers;
  std::vector<optim::ParamRun> runs;
  parallel::Shards shards;                        ///< per replica: elements it updates; one shard where not sharded
  Range shard;                                    ///< of this replica; all elements where not sharded
  std::vector<std::span<float>> optimizer_state;  ///< one per slot of the optimizer, of the shard's elements
  bool is_sharded() const { return shards.ranges.size() > 1; }
};

/// Collective: ranks exchange flat slices of parameters and gradients, so the same element must lie at the same place
/// on all. Throws Error(launch) on all ranks where it does not (CPUs of different kinds).
void check_layouts(comm::Communicator& ranks, const TrainableModel& model);

/// What makes a replica one of several: which it is, and how the sums over all of them are made.
struct ReplicaLinks {
  parallel::GridPlace place;
  std::function<void(const TrainableModel&)> check;  ///< before anything is linked; may be empty
  std::function<std::unique_ptr<parallel::GradientReducer>(const parallel::GrainPlan&, std::int64_t elements)> reducer;
  std::function<std::unique_ptr<parallel::StatisticSum>(const parallel::GrainPlan&, std::int64_t width)> statistics;
  /// Gathers what sharded replicas update; empty: nothing is sharded.
  std::function<std::unique_ptr<parallel::ShardGather>(const std::vector<Range>& shards)> gather;
  bool has_whole_sum = true;                ///< the reducer's result is the whole gradient: the step can clip it
  std::vector<device::TensorDesc> layouts;  ///< of the parameters; empty: as the kernels like them
  parallel::StageLinks* stages = nullptr;   ///< to the neighbours in a pipeline; null: one stage
  comm::Communicator* pipeline = nullptr;   ///< all stages of the replica; null: one stage
};
/// Over the ranks of a communicator, as the config's strategy sums.
ReplicaLinks links_over(const Config& config, comm::Communicator& data, int threads);
/// The same for a stage of a replica.
ReplicaLinks links_over(const Config& config, parallel::Grid& grid, int threads);

/// Bytes that a rank holds while it trains.
struct MemoryUse {
  std::int64_t stage = 0;
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::int64_t activations = 0;  ///< with what ops need while they run
  std::int64_t evaluation = 0;   ///< what evaluations need beyond that
  std::int64_t tied = 0;         ///< for gradients of weights that other stages hold too
  std::int64_t messages = 0;     ///< of the buffers between stages

  std::int64_t total() const { return parameters + gradients + optimizer + activations + evaluation + tied + messages; }
};
/// Collective: that of the rank which holds most.
MemoryUse largest_use(comm::Communicator& world, const MemoryUse& own);

class Replica : public TrainableModel {
 public:
  /// Collective over the replicas. dataset_size: samples of an epoch (full and tail batch are compiled). between_ops:
  /// called between the ops of the backward pass; may be empty. Throws Error(usage | device).
  Replica(const Config& config, const ReplicaLinks& links, std::int64_t dataset_size, int threads,
          std::function<void()> between_ops = {});
  /// One replica per rank of `data`; checks that they lay out their parameters alike.
  Replica(const Config& config, comm::Communicator& data, std::int64_t dataset_size, int threads);
  /// Collective: releases what is shared between ranks. Not called while an exception is in flight.
  void close();

  std::unique_ptr<parallel::GradientReducer> reducer;
  std::unique_ptr<parallel::GrainAccumulator> accumulator;
  std::unique_ptr<Gradients> gradients;
  std::unique_ptr<parallel::StatisticSum> statistics;
  std::vector<optim::ParamRun> own_runs;          ///< what this replica updates, relative to shard.begin
  std::unique_ptr<parallel::ShardGather> gather;  ///< null where not sharded
  parallel::StageLinks alone;                     ///< what a replica of one stage has for links
  parallel::StageLinks& links;                    ///< to the neighbours in a pipeline
  std::unique_ptr<parallel::TiedGradients> tied;  ///< null where no other stage holds a weight of this one
  std::unique_ptr<Step> step;

  /// Collective where sharded: the optimizer's whole state on rank 0, one arena per slot; elsewhere and where not
  /// sharded, nothing.
  std::vector<std::vector<float>> gather_optimizer_state();

  /// Of this rank. evaluation: bytes that it needs beyond the memory of the step.
  MemoryUse memory(std::size_t evaluation) const;
  /// Lines of the start-up table: network, stages, memory, reduction. largest: of all ranks.
  std::vector<std::string> describe(const MemoryUse& largest) const;

 private:
  std::string describe_reduction() const;
};

}  // namespace muster::train
