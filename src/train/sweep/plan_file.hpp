// sweep.yaml beside the trials: what they share and which there are, so that results of another sweep are not taken for
// this one's. What only ranks the trials or says where they lie is not in it: that may change.
#pragma once

#include <muster/config/sweep.hpp>

#include <filesystem>
#include <string>

namespace muster::train {

/// Writes the file, or compares what is there. A sweep may be started again with more trials behind those it had, or
/// with the first of them. Throws Error(usage) naming the difference for any other.
void keep_plan(const std::filesystem::path& file, const config::Sweep& plan);

}  // namespace muster::train
