// How grains are shared out and how their sums move: closed forms for even and uneven counts.
#include <muster/parallel/data/grains.hpp>

#include <muster/base/error.hpp>

#include "unit/parallel/tree.hpp"

#include <gtest/gtest.h>

#include <map>

namespace muster::parallel {
namespace {

GrainPlan plan_of(std::int64_t grains, int replicas, int replica = 0, std::int64_t unit = 1) {
  return {grains, unit, replicas, replica};
}

TEST(GrainPlan, SharesGrainsOut) {
  const GrainPlan plan = plan_of(7, 3);
  EXPECT_EQ(plan.grains_of(0), (Range{0, 2}));
  EXPECT_EQ(plan.grains_of(1), (Range{2, 4}));
  EXPECT_EQ(plan.grains_of(2), (Range{4, 7}));
}

TEST(GrainPlan, CutsRows) {
  const GrainPlan plan = plan_of(4, 1);
  EXPECT_EQ(plan.rows_of_grain(0, 10), (Range{0, 2}));
  EXPECT_EQ(plan.rows_of_grain(1, 10), (Range{2, 5}));
  EXPECT_EQ(plan.rows_of_grain(2, 10), (Range{5, 7}));
  EXPECT_EQ(plan.rows_of_grain(3, 10), (Range{7, 10}));
  EXPECT_EQ(plan.micro_batch_sizes(10), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(plan.micro_batch_sizes(2), (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(plan.micro_batch_sizes(0).empty());
}

TEST(GrainPlan, KeepsUnitsWhole) {
  const GrainPlan plan = plan_of(2, 2, 0, 4);  // 3 units of 4, the last of 2 rows
  EXPECT_EQ(plan.rows_of_grain(0, 10), (Range{0, 4}));
  EXPECT_EQ(plan.rows_of_grain(1, 10), (Range{4, 10}));
  EXPECT_EQ(plan.rows_of_replica(1, 10), (Range{4, 10}));
}

TEST(GrainPlan, CoversEveryRowOnceForAnyRankCount) {
  for (std::int64_t grains = 1; grains <= 9; ++grains)
    for (int replicas = 1; replicas <= 5; ++replicas)
      for (std::int64_t batch : {0, 1, 7, 64, 129}) {
        std::int64_t row = 0;
        std::int64_t grain = 0;
        for (int r = 0; r < replicas; ++r) {
          const GrainPlan plan = plan_of(grains, replicas, r, 3);
          EXPECT_EQ(plan.rows_of_replica(r, batch).begin, row);
          for (; grain < plan.grains_of(r).end; ++grain) {
            EXPECT_EQ(plan.rows_of_grain(grain, batch).begin, row);
            row = plan.rows_of_grain(grain, batch).end;
          }
          EXPECT_EQ(plan.rows_of_replica(r, batch).end, row);
        }
        EXPECT_EQ(row, batch);
        EXPECT_EQ(grain, grains);
      }
}

TEST(Subtrees, AreMaximal) {
  using S = std::vector<Subtree>;
  EXPECT_EQ(maximal_subtrees(6, {0, 3}), (S{{0, 2}, {2, 3}}));
  EXPECT_EQ(maximal_subtrees(6, {3, 6}), (S{{3, 4}, {4, 6}}));
  EXPECT_EQ(maximal_subtrees(6, {0, 6}), (S{{0, 6}}));
  EXPECT_EQ(maximal_subtrees(8, {1, 7}), (S{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(maximal_subtrees(5, {4, 5}), (S{{4, 5}}));
  EXPECT_TRUE(maximal_subtrees(8, {3, 3}).empty());
}

TEST(Additions, FollowTheTree) {
  using A = std::vector<Addition>;
  // ({01} + ({2}+{3})) + {45}
  EXPECT_EQ(additions(6, {{0, 2}, {2, 3}, {3, 4}, {4, 6}}), (A{{1, 2}, {0, 1}, {0, 3}}));
  EXPECT_EQ(additions(6, {{3, 4}}), A{});
  EXPECT_EQ(additions(7, {{4, 6}, {6, 7}}), (A{{0, 1}}));  // a node inside the tree
  EXPECT_TRUE(additions(4, {}).empty());
}

TEST(Additions, RefusePartsThatLeaveGaps) {
  EXPECT_THROW(additions(4, {{0, 1}, {2, 4}}), Error);
  EXPECT_THROW(additions(4, {{1, 2}, {2, 3}}), Error);  // neighbours, but no node of the tree
}

/// Runs the moves of an accumulation on one element and returns the subtrees' values.
std::vector<float> accumulate(std::int64_t grains, Range owned) {
  const Accumulation plan = plan_accumulation(grains, owned);
  std::vector<float> buffers(static_cast<std::size_t>(plan.buffers), -1e9f);
  const auto at = [&](int k) -> float& { return buffers.at(static_cast<std::size_t>(k)); };
  for (std::int64_t g = owned.begin; g < owned.end; ++g) {
    at(0) = test::leaf(g, 0);
    const GrainMoves& moves = plan.moves.at(static_cast<std::size_t>(g - owned.begin));
    if (moves.copy_to >= 0) at(moves.copy_to) = at(0);
    for (const Addition& addition : moves.additions) at(addition.into) += at(addition.from);
  }
  std::vector<float> values;
  for (int buffer : plan.of_subtree) values.push_back(at(buffer));
  return values;
}

TEST(Accumulation, GivesTheTreesBitsForAnyRankCount) {
  const auto leaf_of = [](std::int64_t g) { return test::leaf(g, 0); };
  for (std::int64_t grains = 1; grains <= 33; ++grains) {
    const float expected = test::tree_total<float>(grains, leaf_of);
    for (int replicas = 1; replicas <= 9; ++replicas) {
      std::vector<Subtree> parts;
      std::vector<float> values;
      for (int r = 0; r < replicas; ++r) {
        const Range owned = plan_of(grains, replicas).grains_of(r);
        const auto subtrees = maximal_subtrees(grains, owned);
        const auto sums = accumulate(grains, owned);
        ASSERT_EQ(sums.size(), subtrees.size());
        parts.insert(parts.end(), subtrees.begin(), subtrees.end());
        values.insert(values.end(), sums.begin(), sums.end());
      }
      for (const Addition& a : additions(grains, parts))
        values[static_cast<std::size_t>(a.into)] += values[static_cast<std::size_t>(a.from)];
      ASSERT_EQ(values[0], expected) << grains << " grains, " << replicas << " replicas";
    }
  }
}

TEST(Accumulation, MovesNothingForOneGrain) {
  const Accumulation plan = plan_accumulation(4, {2, 3});
  EXPECT_EQ(plan.buffers, 1);
  EXPECT_EQ(plan.of_subtree, std::vector<int>{0});
  EXPECT_EQ(plan.moves.at(0).copy_to, -1);
  EXPECT_TRUE(plan.moves.at(0).additions.empty());
}

TEST(Accumulation, NeedsOneBufferPerLevel) {
  EXPECT_EQ(plan_accumulation(2, {0, 2}).buffers, 2);
  EXPECT_EQ(plan_accumulation(4, {0, 4}).buffers, 3);
  EXPECT_EQ(plan_accumulation(8, {0, 8}).buffers, 4);
  EXPECT_EQ(plan_accumulation(5, {0, 5}).buffers, 3);
  EXPECT_EQ(plan_accumulation(6, {0, 3}).buffers, 2);  // {0,1} in one, {2} stays where it is computed
  EXPECT_EQ(plan_accumulation(2, {1, 1}).buffers, 1);  // nothing to own
}

}  // namespace
}  // namespace muster::parallel
