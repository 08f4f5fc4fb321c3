// What the environment says about how this process was started.
#pragma once

#include <muster/comm/session.hpp>

#include <functional>

namespace muster::comm {

/// Launcher and tasks; sizes and masks are filled in by the session. variable: as std::getenv.
LaunchFacts facts_from_environment(const std::function<const char*(const char*)>& variable);

}  // namespace muster::comm
