// Which samples make up a batch: a pure function of (seed, epoch, position), evaluated per index in O(1) memory, so
// that resuming needs one integer and no rank ever sends a permutation.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/dataset/options.hpp>

#include <cstdint>

namespace muster::dataset {

/// A bijection of [0, size) keyed by (seed, epoch): cycle-walking Feistel network on the smallest even number of bits
/// (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002) with Philox rounds.
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t size, const ShuffleOptions& shuffle);
  /// The sample at `position` of the epoch, 0 <= position < size.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t seed_;
  std::int64_t epoch_;
  std::int64_t size_;
  ShuffleOptions shuffle_;
};

/// Where a step's global batch lies: derived from the global sample counter alone. The tail batch of an epoch is
/// smaller, never padded; a batch never crosses an epoch.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  ///< position of the batch's first sample in the epoch's permutation
  std::int64_t rows = 0;   ///< samples in this global batch
};
/// sample_counter: samples consumed since the start of training (all epochs).
BatchPosition batch_at(std::int64_t sample_counter, std::int64_t dataset_size, std::int64_t batch);
std::int64_t steps_per_epoch(std::int64_t dataset_size, std::int64_t batch);

}  // namespace muster::dataset
