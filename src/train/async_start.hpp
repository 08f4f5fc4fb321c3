// What rank 0 tells at the start of an asynchronous run.
#pragma once

#include "train/server.hpp"

namespace muster::train {

/// The lines of the log from the run's name to its length: settings, who is what and where, shards, windows, rules.
void tell_start(const ServerRank& server, const RunData& data, std::int64_t first_step);

}  // namespace muster::train
