// Proof that an epoch used every sample exactly once: count, sum and sum of squares of the sample indices (mod 2^64),
// added over all ranks and compared with the closed forms. Survives a resume in mid-epoch: the sums are part of a
// checkpoint.
#pragma once

#include <muster/comm/communicator.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace muster::train {

/// Count, sum of (index + 1) and of its square, mod 2^64.
std::array<std::uint64_t, 3> index_sums(std::span<const std::int64_t> indices);
/// Of the samples 0 ... size - 1.
std::array<std::uint64_t, 3> index_sums_of_epoch(std::int64_t size);

class EpochAudit {
 public:
  /// sums: of the epoch so far over all ranks, from a checkpoint; only rank 0 carries them on.
  explicit EpochAudit(std::array<std::int64_t, 3> sums = {}, bool carries_past = true);
  void add(std::span<const std::int64_t> indices);
  /// Collective: the sums over all ranks.
  std::array<std::int64_t, 3> total(comm::Communicator& data) const;
  /// Collective: throws Error(internal) unless samples 0 .. size-1 were each used once; then starts the next epoch.
  void finish_epoch(comm::Communicator& data, std::int64_t epoch, std::int64_t size);

 private:
  std::array<std::uint64_t, 3> sums_{};  // count, sum of (index + 1), sum of (index + 1)^2
};

}  // namespace muster::train
