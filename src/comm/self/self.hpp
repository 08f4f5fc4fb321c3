// A world of one process, without MPI: the same interface, so nothing above has a second path for one rank.
#pragma once

#include <muster/comm/session.hpp>

namespace muster::comm {

std::unique_ptr<Session> make_self_session(const SessionOptions& options, LaunchFacts facts, std::string library);

}  // namespace muster::comm
