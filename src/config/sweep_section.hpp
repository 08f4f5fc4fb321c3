// The keys of the section `sweep`, for its reader and for the reference.
#pragma once

#include "config/key.hpp"

#include <muster/config/sweep.hpp>

#include <vector>

namespace muster::config {

struct SweepSection {
  SweepOptions options;
  Node keys;  ///< what `keys` says, read by its own rules
};

const std::vector<Key<SweepSection>>& sweep_keys();

}  // namespace muster::config
