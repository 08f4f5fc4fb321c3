// The training command's heart: from a session and a config to a finished run. Collective.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/config/config.hpp>

namespace muster::train {

struct TrainFlags {
  bool is_resumed = false;  ///< --resume: continue the run in its directory
  bool is_forced = false;   ///< --force: replace what muster left in the directory
};

/// Collective: resume where there is a checkpoint, else start anew; a run that was killed before its first checkpoint
/// has nothing to lose. Rank 0 looks, since a network disk may show others something older.
TrainFlags continue_flags(comm::Communicator& world, const std::string& run_directory);

/// Trains to the end of the config and returns done, or requeue when a signal stopped it (state saved). Throws Error.
ExitCode train(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags);

}  // namespace muster::train
