#include <muster/train/audit.hpp>

#include <muster/base/error.hpp>

namespace muster::train {

std::array<std::uint64_t, 3> index_sums(std::span<const std::int64_t> indices) {
  std::array<std::uint64_t, 3> sums{};
  for (std::int64_t index : indices) {
    const auto term = static_cast<std::uint64_t>(index) + 1;
    sums[0] += 1;
    sums[1] += term;
    sums[2] += term * term;
  }
  return sums;
}

std::array<std::uint64_t, 3> index_sums_of_epoch(std::int64_t size) {
  const auto n = static_cast<unsigned __int128>(size);
  return {static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(n * (n + 1) / 2),
          static_cast<std::uint64_t>(n * (n + 1) / 2 * (2 * n + 1) / 3)};
}

EpochAudit::EpochAudit(std::array<std::int64_t, 3> sums, bool carries_past) {
  if (!carries_past) return;
  for (std::size_t i = 0; i < 3; ++i) sums_[i] = static_cast<std::uint64_t>(sums[i]);
}

void EpochAudit::add(std::span<const std::int64_t> indices) {
  const auto sums = index_sums(indices);
  for (std::size_t i = 0; i < 3; ++i) sums_[i] += sums[i];
}

std::array<std::int64_t, 3> EpochAudit::total(comm::Communicator& data) const {
  std::array<std::int64_t, 3> sums;
  for (std::size_t i = 0; i < 3; ++i) sums[i] = static_cast<std::int64_t>(sums_[i]);
  data.all_reduce(std::span<std::int64_t>(sums), comm::Reduction::sum, "audit of the epoch's samples");
  return sums;
}

void EpochAudit::finish_epoch(comm::Communicator& data, std::int64_t epoch, std::int64_t size) {
  const auto found = total(data);
  const auto expected = index_sums_of_epoch(size);
  for (std::size_t i = 0; i < 3; ++i) {
    if (static_cast<std::uint64_t>(found[i]) != expected[i])
      fail(ExitCode::internal,
           "epoch {}: the ranks together used {} samples of {}, check sums {} and {}, expected {} and {}: a sample was "
           "missed or used twice",
           epoch, found[0], size, static_cast<std::uint64_t>(found[1]), static_cast<std::uint64_t>(found[2]),
           expected[1], expected[2]);
  }
  sums_ = {};
}

}  // namespace muster::train
