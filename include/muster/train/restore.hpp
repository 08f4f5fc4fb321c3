// A trained network ready to be applied: from a run directory, for evaluation and prediction.
#pragma once

#include <muster/config/config.hpp>
#include <muster/device/backend.hpp>
#include <muster/model/program.hpp>

#include <memory>
#include <string>
#include <vector>

namespace muster::train {

struct TrainedNetwork {
  config::Loaded loaded;
  int threads = 1;
  std::int64_t step = 0;
  model::Network network;
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<model::ParameterStore> store;
};

/// Reads RUN/config.yaml and the newest good checkpoint (or that of `step`, if >= 0). Throws Error(usage | checkpoint).
/// Returned by pointer: the store refers to the network beside it.
std::unique_ptr<TrainedNetwork> restore_network(const std::string& run, const std::vector<std::string>& sets,
                                                std::int64_t step, int cores);

}  // namespace muster::train
