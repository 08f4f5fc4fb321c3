// What must hold between keys, once each of them is good by itself.
#pragma once

#include "config/value.hpp"

#include <muster/train/options.hpp>

namespace muster::config {

/// Adds a problem for everything that does not go together. root: place for keys that were not given.
void validate(const train::Config& config, const Place& root, Reading& reading);
/// Fills in what follows from other keys: the directory, the shape of synthetic data, one thread in bitwise mode.
void derive(train::Config& config);

/// Samples that batch norms of group scope tie together: least common multiple of the groups; 1 without.
std::int64_t batch_norm_unit(const model::LayerList& layers);
bool has_global_batch_norm(const model::LayerList& layers);

}  // namespace muster::config
