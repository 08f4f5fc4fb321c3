// `muster replay`: computes a recorded asynchronous run again, update by update, and compares its checkpoints to the
// bit. Any rank count: gradients that are far enough apart are computed side by side.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>

#include <string>
#include <vector>

namespace muster::train {

/// Collective. Replays up to the newest checkpoint of the run; every checkpoint on the way must be equal to the bit in
/// weights, running values and optimizer state. Throws Error(usage) where there is no record, Error(internal) that
/// names the tensor and element where they differ.
ExitCode replay(comm::Session& session, const std::string& run, const std::vector<std::string>& sets);

}  // namespace muster::train
