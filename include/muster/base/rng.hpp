// Counter-based random numbers: every value is a pure function of (seed, purpose, two counters, element), never of
// which rank or thread draws it or of what was drawn before. Philox4x32-10 from Random123 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace muster {

/// What a random number is for: part of the key, so that streams never meet.
enum class Purpose : std::uint32_t {
  init = 1,
  dropout = 2,
  shuffle = 3,
  augment = 4,
  synthetic = 5,
  sample = 6,
  sweep = 7,
  test = 99
};

/// A stream of random numbers addressed by element.
///   seed: the run's seed;  major/minor: e.g. (layer, step) or (epoch, sample).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t major, std::uint32_t minor) noexcept;

  /// What Philox is given, for those who draw the same numbers elsewhere (a GPU); the last counter word is the block.
  std::array<std::uint32_t, 2> key() const noexcept { return key_; }
  std::array<std::uint32_t, 3> counter() const noexcept { return counter_; }

  /// Four 32-bit words for block `index`; element e of a stream is word e % 4 of block e / 4.
  std::array<std::uint32_t, 4> block(std::uint32_t index) const noexcept;
  /// Words of the blocks from `first_block` on, as many as fit in `words` (the last block may be cut): the same as
  /// block(), many at a time in vector registers.
  void fill(std::uint32_t first_block, std::span<std::uint32_t> words) const noexcept;
  std::uint32_t bits(std::uint64_t element) const noexcept;
  /// Uniform in [0, 1): the upper 24 bits, so that the float is exact.
  float uniform(std::uint64_t element) const noexcept;
  /// The upper 24 bits of a word as a float in [0, 1), exactly.
  static float unit(std::uint32_t word) noexcept { return static_cast<float>(word >> 8) * 0x1p-24f; }
  /// Standard normal by Box-Muller from one block per pair of elements.
  float normal(std::uint64_t element) const noexcept;
  /// The pair of normals (elements 2b and 2b + 1) made from block b's first two words.
  static std::array<float, 2> normal_pair(std::uint32_t first, std::uint32_t second) noexcept;
  /// Uniform integer in [0, bound), by multiply-shift of 32 bits; bound > 0.
  std::uint32_t below(std::uint64_t element, std::uint32_t bound) const noexcept;

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 3> counter_;  // the last counter word is the block index
};

}  // namespace muster
