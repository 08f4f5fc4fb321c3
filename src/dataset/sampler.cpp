#include <muster/base/check.hpp>
#include <muster/base/rng.hpp>
#include <muster/dataset/sampler.hpp>

#include <algorithm>
#include <bit>

namespace muster::dataset {
namespace {

/// Pseudo-random bijection of [0, size): a balanced Feistel network on the smallest even number of bits that holds
/// size, applied again until the result lies inside (on average fewer than four times).
std::int64_t permuted(std::uint64_t seed, std::uint64_t key, std::uint32_t domain, std::int64_t size,
                      std::int64_t index) {
  if (size <= 1) return 0;
  constexpr std::uint32_t rounds = 4;
  const int bits = std::bit_width(static_cast<std::uint64_t>(size - 1));
  const int half = (bits + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const RandomStream stream(seed, Purpose::shuffle, key, domain);
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      // The round function: one word of the stream, addressed by (right, round); halves have at most 32 bits.
      const std::uint64_t mixed = stream.block(static_cast<std::uint32_t>(right) ^ (round << 30))[round];
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(value);
}

constexpr std::uint32_t samples_domain = 0, blocks_domain = 1, window_domain = 2;

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t size, const ShuffleOptions& shuffle)
    : seed_(seed), epoch_(epoch), size_(size), shuffle_(shuffle) {
  MUSTER_CHECK(size > 0 && size < (std::int64_t{1} << 60), "size {}", size);
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  MUSTER_CHECK(position >= 0 && position < size_, "position {} of {}", position, size_);
  const auto epoch = static_cast<std::uint64_t>(epoch_);
  switch (shuffle_.kind) {
    case ShuffleOptions::Kind::none:
      return position;
    case ShuffleOptions::Kind::full:
      return permuted(seed_, epoch, samples_domain, size_, position);
    case ShuffleOptions::Kind::block:
      break;
  }
  // Whole blocks are permuted (the short last one keeps its place), then the samples of each window of blocks.
  const std::int64_t block = shuffle_.block, window = block * shuffle_.window;
  const std::int64_t first = position / window * window, length = std::min(window, size_ - first);
  const std::int64_t mixed = first + permuted(seed_ ^ (static_cast<std::uint64_t>(first) << 20), epoch, window_domain,
                                              length, position - first);
  const std::int64_t whole_blocks = size_ / block, index = mixed / block;
  if (index >= whole_blocks) return mixed;
  return permuted(seed_, epoch, blocks_domain, whole_blocks, index) * block + mixed % block;
}

std::int64_t steps_per_epoch(std::int64_t dataset_size, std::int64_t batch) {
  return (dataset_size + batch - 1) / batch;
}

BatchPosition batch_at(std::int64_t sample_counter, std::int64_t dataset_size, std::int64_t batch) {
  MUSTER_CHECK(dataset_size > 0 && batch > 0 && sample_counter >= 0, "size {}, batch {}, counter {}", dataset_size,
               batch, sample_counter);
  BatchPosition position;
  position.epoch = sample_counter / dataset_size;
  position.first = sample_counter % dataset_size;
  position.rows = std::min(batch, dataset_size - position.first);
  return position;
}

}  // namespace muster::dataset
