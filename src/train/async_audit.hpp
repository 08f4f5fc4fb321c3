// Every sample of an epoch once, also where batches are applied out of order: the sums that the workers report of what
// they used (include/muster/train/audit.hpp) against the closed form, epoch by epoch.
#pragma once

#include "train/run_data.hpp"

#include <muster/config/config.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace muster::train {

class AsyncAudit {
 public:
  /// Of a run that goes on where every step before first_open and those in done_beyond are applied; what they used
  /// follows from the order of samples. `data` must outlive it.
  AsyncAudit(const Config& config, const RunData& data, std::int64_t first_open, std::vector<std::int64_t> done_beyond);
  /// Throws Error(internal) when the update completes its epoch and a sample was missed or used twice.
  void add(const parallel::Applied& update);

 private:
  const RunData& data_;
  std::map<std::int64_t, std::array<std::uint64_t, 3>> sums_;  // by epoch, until it is complete
};

}  // namespace muster::train
