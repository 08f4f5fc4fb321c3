// Random numbers: the published answers of Philox4x32-10, the addressing of elements, the shape of the distributions.
#include <muster/base/rng.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace muster {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers published with Random123 (kat_vectors, "philox4x32 10"): counter, key, result. A stream's key is
// (low half of the seed, high half xor purpose << 24) and its counter (major low, major high, minor, block).
RandomStream stream_with(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 3> counter) {
  const std::uint32_t high = key[1] ^ (static_cast<std::uint32_t>(Purpose::test) << 24);
  const std::uint64_t seed = (static_cast<std::uint64_t>(high) << 32) | key[0];
  return {seed, Purpose::test, (static_cast<std::uint64_t>(counter[1]) << 32) | counter[0], counter[2]};
}

TEST(RandomStream, GivesThePublishedAnswers) {
  EXPECT_EQ(stream_with({0, 0}, {0, 0, 0}).block(0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(stream_with({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff}).block(0xffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(stream_with({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e}).block(0x03707344),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, AddressesWordsOfBlocks) {
  const RandomStream stream(42, Purpose::test, 7, 3);
  for (std::uint32_t element = 0; element < 23; ++element)
    EXPECT_EQ(stream.bits(element), stream.block(element / 4)[element % 4]) << "element " << element;
}

TEST(RandomStream, IsAPureFunctionOfItsAddress) {
  const RandomStream first(42, Purpose::test, 7, 3), again(42, Purpose::test, 7, 3);
  EXPECT_EQ(first.bits(1000), again.bits(1000));
  (void)first.bits(5);
  EXPECT_EQ(first.bits(1000), again.bits(1000));
}

TEST(RandomStream, EveryPartOfTheAddressCounts) {
  const std::vector<RandomStream> streams = {{42, Purpose::test, 7, 3},
                                             {43, Purpose::test, 7, 3},
                                             {42 + (1ull << 32), Purpose::test, 7, 3},
                                             {42, Purpose::init, 7, 3},
                                             {42, Purpose::dropout, 7, 3},
                                             {42, Purpose::shuffle, 7, 3},
                                             {42, Purpose::augment, 7, 3},
                                             {42, Purpose::synthetic, 7, 3},
                                             {42, Purpose::test, 8, 3},
                                             {42, Purpose::test, 7, 4},
                                             {42, Purpose::test, 7 + (1ull << 32), 3},
                                             {42, Purpose::test, 3, 7}};
  std::set<Words> seen;
  for (const auto& stream : streams) seen.insert(stream.block(0));
  EXPECT_EQ(seen.size(), streams.size());
}

TEST(RandomStream, FillGivesTheWordsOfTheBlocks) {
  const RandomStream stream(0x123456789abcdefull, Purpose::test, 0xfedcba9876ull, 17);
  for (std::size_t count : {0u, 1u, 3u, 4u, 63u, 64u, 65u, 1000u}) {
    for (std::uint32_t first : {0u, 1u, 1234567u, 0xfffffff0u}) {
      std::vector<std::uint32_t> words(count + 1, 99);
      stream.fill(first, {words.data(), count});
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(words[i], stream.block(first + static_cast<std::uint32_t>(i / 4))[i % 4])
            << "word " << i << " of " << count << " from block " << first;
      EXPECT_EQ(words[count], 99u);
    }
  }
}

TEST(RandomStream, UniformIsExactAndBelowOne) {
  const RandomStream stream(1, Purpose::test, 0, 0);
  for (std::uint64_t element = 0; element < 10000; ++element) {
    const float value = stream.uniform(element);
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    ASSERT_EQ(static_cast<double>(value) * 0x1p24, static_cast<double>(stream.bits(element) >> 8))
        << "element " << element;
  }
}

/// Mean, variance, third and fourth central moments of the values f(0), f(1), ...
template <class Draw>
std::array<double, 4> moments(int count, Draw draw) {
  std::vector<double> values(static_cast<std::size_t>(count));
  double mean = 0;
  for (int i = 0; i < count; ++i) mean += values[static_cast<std::size_t>(i)] = draw(static_cast<std::uint64_t>(i));
  mean /= count;
  std::array<double, 4> result{mean, 0, 0, 0};
  for (double value : values)
    for (std::size_t power = 1; power < 4; ++power)
      result[power] += std::pow(value - mean, static_cast<double>(power) + 1) / count;
  return result;
}

// The tolerances are five standard errors of each moment for 200000 independent draws.
constexpr int draws = 200000;

TEST(RandomStream, UniformHasItsMoments) {
  const RandomStream stream(2, Purpose::test, 1, 1);
  const auto m = moments(draws, [&](std::uint64_t i) { return static_cast<double>(stream.uniform(i)); });
  EXPECT_NEAR(m[0], 0.5, 5 * std::sqrt(1.0 / 12 / draws));
  EXPECT_NEAR(m[1], 1.0 / 12, 5 * std::sqrt((1.0 / 80 - 1.0 / 144) / draws));
  EXPECT_NEAR(m[2], 0.0, 5 * std::sqrt(1.0 / 448 / draws));
}

TEST(RandomStream, NormalHasItsMoments) {
  const RandomStream stream(3, Purpose::test, 1, 1);
  const auto m = moments(draws, [&](std::uint64_t i) { return static_cast<double>(stream.normal(i)); });
  EXPECT_NEAR(m[0], 0.0, 5 * std::sqrt(1.0 / draws));
  EXPECT_NEAR(m[1], 1.0, 5 * std::sqrt(2.0 / draws));
  EXPECT_NEAR(m[2], 0.0, 5 * std::sqrt(15.0 / draws));
  EXPECT_NEAR(m[3], 3.0, 5 * std::sqrt(96.0 / draws));
}

TEST(RandomStream, NeighbouringNormalsAreUncorrelated) {
  // The two values of a Box-Muller pair share their radius: a slip of the angle would tie them together.
  const RandomStream stream(4, Purpose::test, 1, 1);
  double within_pair = 0, across_pairs = 0, radii = 0;
  for (std::uint64_t i = 0; i + 2 < draws; i += 2) {
    const double a = stream.normal(i), b = stream.normal(i + 1), c = stream.normal(i + 2);
    within_pair += a * b, across_pairs += b * c, radii += a * a + b * b;
  }
  const double pairs = draws / 2.0;
  EXPECT_NEAR(within_pair / pairs, 0.0, 5 / std::sqrt(pairs));
  EXPECT_NEAR(across_pairs / pairs, 0.0, 5 / std::sqrt(pairs));
  EXPECT_NEAR(radii / pairs, 2.0, 5 * 2 / std::sqrt(pairs));
}

TEST(RandomStream, NormalIsFiniteForTheSmallestWord) {
  // Box-Muller takes the logarithm of a word in (0, 1]: the largest possible value is sqrt(64 ln 2) = 6.66.
  const RandomStream stream(5, Purpose::test, 1, 1);
  for (std::uint64_t i = 0; i < draws; ++i) ASSERT_LE(std::abs(stream.normal(i)), 6.67f) << "element " << i;
}

TEST(RandomStream, BelowFillsItsRangeEvenly) {
  const RandomStream stream(6, Purpose::test, 1, 1);
  constexpr std::uint32_t bound = 7;
  std::array<int, bound> counts{};
  for (std::uint64_t i = 0; i < 70000; ++i) {
    const std::uint32_t value = stream.below(i, bound);
    ASSERT_LT(value, bound);
    ++counts[value];
  }
  // 10000 each, with a standard deviation of sqrt(70000 * 1/7 * 6/7) = 92.6.
  for (int count : counts) EXPECT_NEAR(count, 10000, 463);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(stream.below(i, 1), 0u);
}

TEST(RandomStream, BelowIsMultiplyShift) {
  const RandomStream stream(7, Purpose::test, 1, 1);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(stream.below(i, 0xffffffffu), static_cast<std::uint32_t>(stream.bits(i) * 0xffffffffull >> 32));
}

}  // namespace
}  // namespace muster
