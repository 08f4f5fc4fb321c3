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

/// Trains to the end of the config and returns done, or requeue when a signal stopped it (state saved). Throws Error.
ExitCode train(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags);

}  // namespace muster::train
