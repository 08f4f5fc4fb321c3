// What happened between two lines of an asynchronous run's log: sums over the updates, how stale they were, and whose.
#pragma once

#include <muster/base/clock.hpp>
#include <muster/base/text.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace muster::train {

struct AsyncInterval {
  Stopwatch watch;
  std::int64_t updates = 0, rows = 0, loss_units = 0, correct = 0, top_k_correct = 0;
  std::map<std::int64_t, std::int64_t> staleness;  // how many updates had it
  std::vector<std::int64_t> by_worker;             // samples

  void add(const parallel::Applied& update) {
    ++updates;
    rows += update.rows;
    loss_units += update.loss_units;
    correct += update.correct;
    top_k_correct += update.top_k_correct;
    ++staleness[update.version - 1 - update.base];
    for (const auto& share : update.shares) by_worker[static_cast<std::size_t>(share.worker)] += share.rows;
  }
  std::int64_t median_staleness() const {
    std::int64_t seen = 0;
    for (const auto& [value, count] : staleness)
      if (2 * (seen += count) >= updates) return value;
    return 0;
  }
  std::int64_t largest_staleness() const { return staleness.empty() ? 0 : staleness.rbegin()->first; }
  std::string shares() const {
    std::vector<std::string> parts;
    for (std::int64_t count : by_worker)
      parts.push_back(fmt::format(
          "{:.0f}", 100.0 * static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(rows, 1))));
    return join(parts, "/");
  }
};

}  // namespace muster::train
