// `muster sweep`: the trials of a sweep on groups of the job's ranks.
//
//   ranks   0 1 | 2 3 | 4 5      ranks_per_trial: 2, three groups
//   trials  0     1     2        a group that is done takes the next trial that nobody has
//           3     5     4
//
// Each trial trains as if its group were the job. Who has a trial holds a lock on its file, which ends with the
// process: several jobs may work on one sweep, and a killed one leaves nothing to clear up.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/config/sweep.hpp>

namespace muster::train {

/// Collective. Runs every trial that has no result yet, goes on from the checkpoints of those that were interrupted,
/// and writes SWEEP/trials.csv and SWEEP/ranking.txt. A trial that fails is recorded and the others go on. Returns the
/// code of what a group failed at apart from its trial (a result that cannot be written), once the others are through;
/// requeue when a signal or the wall time stopped the sweep; done when at least one trial succeeded; else the code of
/// the first failure. Throws AgreedError.
ExitCode sweep(comm::Session& session, const config::Sweep& plan);

}  // namespace muster::train
