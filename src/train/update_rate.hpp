// The learning rate of one asynchronous update.
#pragma once

#include <muster/config/config.hpp>
#include <muster/optim/optimizer.hpp>

#include <algorithm>
#include <cstdint>

namespace muster::train {

/// Of the step on batch `step`, or of the update that turns `step` batches into one more: the schedule's.
inline double scheduled_rate(const Config& config, const optim::Schedule& schedule, std::int64_t step) {
  return config.optimizer.lr * schedule.factor(step);
}

/// Of the update that turns `version` into the next, with a gradient computed `staleness` versions before it. Pure, so
/// that a replay makes the same. parallel.staleness_scaling: inverse divides the schedule's rate by the staleness where
/// that is more than one, as Zhang, Gupta, Lian and Liu do ("Staleness-aware async-SGD for distributed deep learning",
/// 2016): s updates made of gradients s versions old then go about as far as a fresh one. Changes of the weights
/// (parallel.push_every, elastic) have the schedule's rate in them: theirs is 1 instead, divided alike.
inline double update_rate(const Config& config, const optim::Schedule& schedule, std::int64_t version,
                          std::int64_t staleness) {
  const double scheduled = config.parallel.has_local_steps() ? 1 : scheduled_rate(config, schedule, version);
  if (config.parallel.staleness_scaling == "none") return scheduled;
  return scheduled / static_cast<double>(std::max<std::int64_t>(staleness, 1));
}

}  // namespace muster::train
