// The ranks of a job as a grid: data x pipeline. A replica trains on its share of every batch; its stages each hold a
// part of the network. Stages of a replica are neighbouring ranks: rank = replica * stages + stage.
//
//                 stage 0   stage 1   stage 2
//   replica 0     rank 0    rank 1    rank 2      links: values and gradients between the stages of a replica
//   replica 1     rank 3    rank 4    rank 5      data: gradients are summed over the ranks of one stage
#pragma once

#include <muster/comm/communicator.hpp>
#include <muster/parallel/options.hpp>
#include <muster/parallel/pipeline/stage_links.hpp>

#include <memory>

namespace muster::parallel {

struct GridPlace {
  int replicas = 1, replica = 0;
  int stages = 1, stage = 0;
};
/// ranks: divisible by the number of stages (config::check_ranks).
GridPlace place_in_grid(const ParallelOptions& options, int ranks, int rank);

class Grid {
 public:
  /// Collective over `world`, which outlives this. One stage: the replicas are the ranks of the world itself.
  Grid(comm::Communicator& world, const ParallelOptions& options);

  const GridPlace& place() const { return place_; }
  comm::Communicator& data() { return data_ ? *data_ : world_; }  ///< this stage of all replicas, rank = replica
  comm::Communicator* replica() { return replica_.get(); }        ///< the stages of this replica; null: one stage
  StageLinks& links() { return links_; }

 private:
  comm::Communicator& world_;
  GridPlace place_;
  std::unique_ptr<comm::Communicator> data_, replica_;
  StageLinks links_;
};

}  // namespace muster::parallel
