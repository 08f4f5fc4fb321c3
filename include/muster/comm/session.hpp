// The lifetime of MPI: started once by a command that needs it, finalised when the last owner goes. Asks for a thread
// level and verifies it, sets MPI_ERRORS_RETURN before anything else is derived, knows hosts and the launcher.
#pragma once

#include <muster/comm/communicator.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace muster::comm {

struct SessionOptions {
  double deadline_s = 300;  ///< limit of every wait until the config says otherwise
};

/// What the launcher says about this process, read from the environment before MPI starts.
struct LaunchFacts {
  int world_size = 1;         ///< as MPI says
  int tasks_of_job = 0;       ///< at least so many were started, says the launcher; 0: no launcher
  std::string tasks_said_by;  ///< the variable that says so, "SLURM_NTASKS=4"
  std::string launcher;       ///< "none", "mpirun", "srun"
  int ranks_on_node = 1;
  int cores_allowed = 1;  ///< affinity mask of this process
  int cores_of_node = 1;  ///< union of the masks of the node's ranks
  bool is_bound = false;  ///< the mask is smaller than the machine

  /// Cores for this rank's threads: its mask, or its part of the node's cores where ranks share them. At least 1.
  int cores_per_rank() const {
    return std::max(1, std::min(cores_allowed, cores_of_node / std::max(ranks_on_node, 1)));
  }
};

class Session {
 public:
  virtual ~Session() = default;
  virtual Communicator& world() = 0;
  virtual const LaunchFacts& launch() const = 0;
  virtual std::string library() const = 0;  ///< "Open MPI 4.1.4", for `muster info`
  /// From now on the limit of every wait (run.deadline_s), also of communicators made before.
  virtual void set_deadline(double seconds) = 0;
  /// Ends all ranks at once with this code; used when an Error leaves a rank's main. Does not return.
  [[noreturn]] virtual void abort(int exit_code) = 0;
  /// The run went on although ranks were lost: close() then does nothing, and the process must end by _Exit, since
  /// MPI's own end would wait for them for ever.
  virtual void set_ranks_lost() = 0;
  virtual bool are_ranks_lost() const = 0;
  /// Collective. Without it the destructor does not finalise (an exception is on its way).
  virtual void close() = 0;
};

/// Starts MPI where a launcher started this process; otherwise this process is a world of one and MPI's start-up time
/// is saved. Call once.
std::unique_ptr<Session> start_session(const SessionOptions& options);

/// A session whose world is a group of the ranks of `whole`, for work that should run as in a job of its own. Facts
/// about the launch, deadlines and the end of the process stay those of `whole`, which must outlive it, as must the
/// group; close() does nothing.
std::unique_ptr<Session> make_group_session(Session& whole, Communicator& group);

/// What is wrong with a launch, one line each with the flag that mends it; pure, for check_launch and tests.
std::vector<std::string> launch_problems(const LaunchFacts& facts, int threads_per_rank, bool allow_oversubscribe);

/// Throws Error(launch) with the flag that mends it: the job has N tasks but MPI says 1 (srun without --mpi), more
/// threads than the affinity mask allows, more ranks x threads on a node than its cores (unless allow_oversubscribe).
/// Collective: all ranks throw or none. Called before any file is written.
void check_launch(Session& session, int threads_per_rank, bool allow_oversubscribe);

}  // namespace muster::comm
