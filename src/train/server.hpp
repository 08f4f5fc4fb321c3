// What every parameter server has: the model as it starts, its shard, and the window. Rank 0 goes on as the coordinator
// (coordinated_run.cpp), the others follow its log.
#pragma once

#include "train/async.hpp"

#include <muster/parallel/server/shard_server.hpp>

#include <vector>

namespace muster::train {

class ServerRank {
 public:
  ServerRank(AsyncJob& job, const RunData& data);
  /// Publishes the first version of this server's shard. After start_together().
  void start();

  AsyncJob& job;
  TrainableModel model;
  std::unique_ptr<optim::Optimizer> change_optimizer;  ///< where workers push changes: in the place of the model's
  std::unique_ptr<parallel::ShardServer> shard;

  /// This shard's elements of the parameters and running values, from or into the whole model.
  std::vector<float> cut_weights();
  std::vector<float> cut_state(std::size_t slot);
};

/// Rank 0: the run's log, metrics, evaluations and checkpoints. Returns when all is over.
ExitCode coordinate(ServerRank& server, RunData& data);

}  // namespace muster::train
