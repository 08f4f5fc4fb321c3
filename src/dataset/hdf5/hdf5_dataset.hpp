// Samples from one or several HDF5 files, joined in order; optionally only a range of them.
#pragma once

#include <muster/dataset/dataset.hpp>

namespace muster::dataset::hdf5 {

/// section: "data.train" or "data.test", for messages. needs_targets: false for prediction.
std::unique_ptr<Dataset> open_dataset(const SourceOptions& options, const std::string& section, bool needs_targets);

}  // namespace muster::dataset::hdf5
