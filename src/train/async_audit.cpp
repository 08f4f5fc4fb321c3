#include "train/async_audit.hpp"

#include <muster/base/error.hpp>
#include <muster/train/audit.hpp>

namespace muster::train {

AsyncAudit::AsyncAudit(const Config& config, const RunData& data, std::int64_t first_open,
                       std::vector<std::int64_t> done_beyond)
    : data_(data) {
  std::vector<std::int64_t> done = std::move(done_beyond);
  for (std::int64_t step = data.first_step_of_epoch(first_open); step < first_open; ++step) done.push_back(step);
  for (std::int64_t step : done) {
    const auto sums = index_sums_of_step(config, data, step);
    for (std::size_t i = 0; i < 3; ++i) sums_[step / data.steps_per_epoch][i] += sums[i];
  }
}

void AsyncAudit::add(const parallel::Applied& update) {
  const std::int64_t epoch = update.batch / data_.steps_per_epoch;
  auto& sums = sums_[epoch];
  for (std::size_t i = 0; i < 3; ++i) sums[i] += update.index_sums[i];
  if (sums[0] < static_cast<std::uint64_t>(data_.size)) return;
  const auto expected = index_sums_of_epoch(data_.size);
  if (sums != expected)
    fail(ExitCode::internal,
         "epoch {}: the workers together used {} samples of {}, check sums {} and {}, expected {} and {}: a sample was "
         "missed or used twice",
         epoch, sums[0], data_.size, sums[1], sums[2], expected[1], expected[2]);
  sums_.erase(epoch);
}

}  // namespace muster::train
