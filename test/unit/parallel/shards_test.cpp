// How the model is cut over the servers.
#include <muster/parallel/shards.hpp>

#include <gtest/gtest.h>

namespace muster::parallel {
namespace {

const std::vector<optim::ParamRun> runs{{"a", {0, 160}, true}, {"b", {160, 176}, false}, {"c", {176, 1600}, true}};

TEST(Shards, TileTheModelInEqualParts) {
  for (int servers : {1, 2, 3, 4, 7}) {
    const Shards shards = cut_shards(1600, 100, servers, false, runs);
    ASSERT_EQ(shards.ranges.size(), static_cast<std::size_t>(servers));
    std::int64_t at = 0;
    for (const Range& range : shards.ranges) {
      EXPECT_EQ(range.begin, at);
      EXPECT_EQ(range.begin % 16, 0);
      EXPECT_NEAR(static_cast<double>(range.size()), 1700.0 / servers, 16);
      at = range.end;
    }
    EXPECT_EQ(at, 1700);
    EXPECT_LT(shards.imbalance(), 1.0 + 16.0 * servers / 1700);
  }
}

TEST(Shards, WholeParametersMoveTheCuts) {
  const Shards shards = cut_shards(1600, 0, 2, true, runs);
  EXPECT_EQ(shards.ranges[0], (Range{0, 176}));  // of the ends 160, 176, 1600 the nearest to 800
  EXPECT_EQ(shards.ranges[1], (Range{176, 1600}));
  EXPECT_DOUBLE_EQ(shards.imbalance(), 1424.0 / 800);
}

TEST(Shards, MoreServersThanCacheLinesLeaveSomeWithNothing) {
  const Shards shards = cut_shards(16, 3, 4, false, {{"a", {0, 16}, true}});
  std::int64_t total = 0;
  for (const Range& range : shards.ranges) total += range.size();
  EXPECT_EQ(total, 19);
}

TEST(Shards, RunsAreCutAndCountedFromTheShard) {
  const auto inside = runs_of_shard({96, 192}, runs);
  ASSERT_EQ(inside.size(), 3u);
  EXPECT_EQ(inside[0].elements, (Range{0, 64}));
  EXPECT_EQ(inside[1].elements, (Range{64, 80}));
  EXPECT_FALSE(inside[1].has_decay);
  EXPECT_EQ(inside[2].elements, (Range{80, 96}));
  EXPECT_TRUE(runs_of_shard({1600, 1700}, runs).empty());  // running values only
}

}  // namespace
}  // namespace muster::parallel
