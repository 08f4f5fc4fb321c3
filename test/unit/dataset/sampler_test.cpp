// The order of samples: a bijection for every size, another one each epoch, the same for everybody who asks.
#include <gtest/gtest.h>

#include <muster/dataset/sampler.hpp>

#include <algorithm>
#include <vector>

namespace muster::dataset {
namespace {

std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch, std::int64_t size,
                                const ShuffleOptions& shuffle) {
  const Permutation permutation(seed, epoch, size, shuffle);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < size; ++i) result.push_back(permutation(i));
  return result;
}

bool is_bijection(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

TEST(Permutation, IsABijectionForEverySize) {
  for (std::int64_t size : {1, 2, 3, 4, 5, 7, 10, 64, 65, 1000, 4097, 60000})
    for (std::int64_t epoch : {0, 1, 77})
      EXPECT_TRUE(is_bijection(order(42, epoch, size, {}))) << size << " epoch " << epoch;
}

TEST(Permutation, BlocksTooWithShortLastBlockAndWindow) {
  for (std::int64_t size : {1, 9, 100, 1003})
    for (std::int64_t block : {1, 4, 10})
      EXPECT_TRUE(is_bijection(order(3, 5, size, {ShuffleOptions::Kind::block, block, 3})))
          << size << " blocks of " << block;
}

TEST(Permutation, NoneKeepsTheOrder) {
  EXPECT_EQ(order(1, 1, 4, {ShuffleOptions::Kind::none, 0, 0}), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(Permutation, DiffersBySeedAndEpochAndMixesWell) {
  const auto a = order(1, 0, 1000, {}), b = order(1, 1, 1000, {}), c = order(2, 0, 1000, {});
  EXPECT_EQ(a, order(1, 0, 1000, {}));
  // About one position in common is expected of two random orders.
  const auto common = [](const auto& x, const auto& y) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < x.size(); ++i) same += x[i] == y[i];
    return same;
  };
  EXPECT_LT(common(a, b), 10u);
  EXPECT_LT(common(a, c), 10u);
  // The mean distance of neighbours is a third of the size for a random order.
  double distance = 0;
  for (std::size_t i = 1; i < a.size(); ++i) distance += std::abs(static_cast<double>(a[i] - a[i - 1]));
  EXPECT_NEAR(distance / 999, 1000.0 / 3, 40);
}

TEST(BatchAt, TheTailIsSmallerAndNothingCrossesAnEpoch) {
  const auto at = [](std::int64_t counter) {
    const BatchPosition p = batch_at(counter, 10, 4);
    return std::vector<std::int64_t>{p.epoch, p.first, p.rows};
  };
  EXPECT_EQ(at(0), (std::vector<std::int64_t>{0, 0, 4}));
  EXPECT_EQ(at(4), (std::vector<std::int64_t>{0, 4, 4}));
  EXPECT_EQ(at(8), (std::vector<std::int64_t>{0, 8, 2}));
  EXPECT_EQ(at(10), (std::vector<std::int64_t>{1, 0, 4}));
  EXPECT_EQ(steps_per_epoch(10, 4), 3);
  EXPECT_EQ(steps_per_epoch(8, 4), 2);
  EXPECT_EQ(steps_per_epoch(3, 4), 1);
}

}  // namespace
}  // namespace muster::dataset
