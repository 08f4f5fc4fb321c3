// `muster doctor`: looks at the ranks of a job, alone or many, before a run depends on them: what was started where,
// what the links between the ranks give, how files are written; and says of each thing that is wrong which line mends
// it.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>

#include <string>
#include <vector>

namespace muster::doctor {

struct Options {
  std::string build;                     ///< of this executable; must be the same on all ranks
  std::vector<std::string> devices;      ///< what backends say of themselves, "cpu: oneDNN 2.6.0 ..."
  std::vector<std::string> directories;  ///< written to for a moment, by rank 0
};

/// Collective. Prints on rank 0 what was found. ExitCode::launch on all ranks where a run could not go on as started,
/// ExitCode::done otherwise, also where something is slow. Takes seconds.
ExitCode examine(comm::Session& session, const Options& options);

}  // namespace muster::doctor
