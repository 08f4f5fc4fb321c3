// The parameter-server strategy, from a session to a finished run. Two roles that never call the same function at the
// same time: server.cpp (keep a shard; rank 0 also coordinates, logs, saves) and worker.cpp (pull, compute, push).
// After the start there is no collective; what the ranks say to each other goes through windows (parallel/server).
#pragma once

#include "train/run_data.hpp"

#include <muster/comm/lifeline.hpp>
#include <muster/comm/session.hpp>
#include <muster/comm/window_probe.hpp>
#include <muster/config/config.hpp>
#include <muster/parallel/server/roles.hpp>
#include <muster/parallel/shards.hpp>
#include <muster/train/assemble.hpp>
#include <muster/train/loop.hpp>
#include <muster/train/run_directory.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace muster::train {

/// What all ranks know and share before they part.
struct AsyncJob {
  comm::Session& session;
  const config::Loaded& loaded;
  TrainFlags flags;
  parallel::Roles roles;
  OpenRun open_run;  ///< on rank 0
  parallel::Shards shards;
  parallel::WindowSizes sizes;
  std::unique_ptr<comm::Window> window;
  comm::WindowFacts window_facts;            ///< measured at the start
  std::unique_ptr<comm::Lifeline> lifeline;  ///< to the servers, where one may wait for them inside MPI
  std::int64_t first_step = 0;               ///< of the checkpoint resumed from: updates made
  std::vector<std::int64_t> done_beyond;     ///< steps applied out of order before it

  const Config& config() const { return loaded.config; }
  comm::Communicator& world() const { return session.world(); }
  /// Versions before this one are made in lock-step.
  std::int64_t lock_step_until() const;
  /// Workers push changes that their own optimizers have made (local_steps.hpp), not gradients.
  bool has_local_steps() const { return config().parallel.has_local_steps(); }
  int threads() const { return thread_count(config(), session.launch().cores_per_rank()); }
};

/// The same on every rank, and again in a replay.
parallel::Shards cut_model(const Config& config, const TrainableModel& model, int servers);

parallel::Roles roles_of(const Config& config, int ranks);

/// Collective: everything between opening the data and the first batch. assemble: makes this rank's model; on servers
/// it is then initialised and, when resuming, restored. The model is cut over the servers and the windows are made.
void start_together(AsyncJob& job, const RunData& data, const std::function<TrainableModel&()>& assemble);

/// The roles. Return when the run is over on this rank.
ExitCode run_server(AsyncJob& job, RunData data);
ExitCode run_worker(AsyncJob& job, RunData data);

/// The whole strategy. Does not return where a rank was lost: then the process ends with its exit code, since no
/// collective end is possible.
ExitCode train_async(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags);

/// Running values of batch norm as one vector behind the parameters.
std::int64_t running_elements(const model::Network& network);
void copy_running(model::ParameterStore& store, std::span<float> into);
void set_running(model::ParameterStore& store, std::span<const float> from);

}  // namespace muster::train
