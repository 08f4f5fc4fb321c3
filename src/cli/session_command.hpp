// Commands that run on the ranks of a job.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>

#include <functional>
#include <string>

namespace muster::cli {

/// Starts the session, runs the body, ends the session: by close() when all ranks agree on the outcome, by abort() when
/// this rank fails alone. crash_folder: the run directory once it exists, else "".
int with_session(const std::function<ExitCode(comm::Session&)>& body, const std::function<std::string()>& crash_folder);

}  // namespace muster::cli
