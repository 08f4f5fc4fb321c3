// The fixed tree gives the same bits however its leaves are spread over parts.
#include "parallel/data/tree_sum.hpp"

#include "parallel/data/bfloat16.hpp"
#include "parallel/data/topology.hpp"
#include "unit/parallel/tree.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::parallel {
namespace {

std::vector<Subtree> leaves(std::int64_t grains) {
  std::vector<Subtree> parts;
  for (std::int64_t g = 0; g < grains; ++g) parts.push_back({g, g + 1});
  return parts;
}

std::vector<std::vector<float>> values_of(std::int64_t grains, std::int64_t n) {
  std::vector<std::vector<float>> values;
  for (std::int64_t g = 0; g < grains; ++g) {
    auto& row = values.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) row.push_back(test::leaf(g, i));
  }
  return values;
}

std::vector<Part> parts_of(const std::vector<std::vector<float>>& values, Encoding encoding = Encoding::fp32) {
  std::vector<Part> parts;
  for (const auto& row : values) parts.push_back({row.data(), encoding});
  return parts;
}

TEST(TreeSum, EqualsTheRecursiveTreeForAllSizesAndThreads) {
  for (std::int64_t grains : {1, 2, 3, 5, 8, 13})
    for (std::int64_t n : {0, 1, 17, 1024, 1025, 70001})
      for (int threads : {1, 3}) {
        const auto values = values_of(grains, n);
        std::vector<float> out(static_cast<std::size_t>(n), -1.0f);
        TreeSum(grains, leaves(grains)).run(parts_of(values), n, out.data(), false, threads);
        for (std::int64_t i = 0; i < n; ++i) {
          const float expected = test::tree_total<float>(
              grains, [&](std::int64_t g) { return values[static_cast<std::size_t>(g)][static_cast<std::size_t>(i)]; });
          ASSERT_EQ(out[static_cast<std::size_t>(i)], expected) << grains << " grains, element " << i;
        }
      }
}

TEST(TreeSum, OfNothingIsZero) {
  float out[3] = {1, 2, 3};
  TreeSum().run({}, 3, out, false, 1);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[2], 0.0f);
}

TEST(TreeSum, MayWriteOverAPart) {
  auto values = values_of(3, 2000);
  const auto before = values;
  TreeSum(3, leaves(3)).run(parts_of(values), 2000, values[0].data(), false, 1);
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(values[0][i], (before[0][i] + before[1][i]) + before[2][i]);
}

TEST(TreeSum, RoundsContributionsAndResultToBfloat16) {
  // 257 needs nine bits: rounds to 256 (ties to even); 259 to 260. Their sum 516 is exact in float and in bfloat16's
  // 4-steps.
  const std::vector<std::vector<float>> values{{257.0f}, {259.0f}};
  float out = 0;
  TreeSum(2, leaves(2)).run(parts_of(values, Encoding::fp32_rounded), 1, &out, true, 1);
  EXPECT_EQ(out, 516.0f);
  const std::uint16_t packed[2] = {to_bfloat16(257.0f), to_bfloat16(1.0f)};
  TreeSum(2, leaves(2))
      .run(std::vector<Part>{{&packed[0], Encoding::bf16}, {&packed[1], Encoding::bf16}}, 1, &out, false, 1);
  EXPECT_EQ(out, 257.0f);  // 256 + 1, the sum itself in float
  TreeSum(2, leaves(2))
      .run(std::vector<Part>{{&packed[0], Encoding::bf16}, {&packed[1], Encoding::bf16}}, 1, &out, true, 1);
  EXPECT_EQ(out, 256.0f);
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0f)), 1.0f);
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0f + 1.0f / 256)), 1.0f);               // half way, to even
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);  // half way, to even
  EXPECT_EQ(from_bfloat16(to_bfloat16(-1.0f - 1.5f / 256)), -1.0f - 2.0f / 256);
  EXPECT_EQ(from_bfloat16(to_bfloat16(3.4e38f)), infinity);
  EXPECT_EQ(from_bfloat16(to_bfloat16(-infinity)), -infinity);
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Slices, CoverABucketInWholeLines) {
  for (std::int64_t size : {0, 1, 15, 16, 17, 100, 4096, 5001})
    for (int parts : {1, 2, 3, 7}) {
      const Range bucket{32, 32 + size};
      std::int64_t at = bucket.begin;
      for (int p = 0; p < parts; ++p) {
        const Range slice = slice_of(bucket, p, parts);
        EXPECT_EQ(slice.begin, at);
        at = slice.end;
        if (slice.end < bucket.end) {
          EXPECT_EQ(slice.end % 16, 0);
        }
        EXPECT_LE(slice.size(), (size + 15) / 16 / parts * 16 + 16);
      }
      EXPECT_EQ(at, bucket.end);
    }
}

TEST(Topology, KnowsWhatANodeCanSum) {
  // 6 grains on 4 replicas: {0} {1,2} {3} {4,5}, subtrees {0} | {1} {2} | {3} | {45}; two nodes of two.
  const Topology topology = plan_topology({6, 1, 4, 0}, {0, 0, 7, 7});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].replicas, (Range{0, 2}));
  ASSERT_EQ(topology.nodes[0].parts.size(), 2u);
  EXPECT_EQ(topology.nodes[0].parts[0].range, (Subtree{0, 2}));  // 0 and 1, of two ranks
  EXPECT_EQ(topology.nodes[0].parts[0].sources.size(), 2u);
  EXPECT_TRUE(topology.nodes[0].parts[1].is_raw());  // 2 alone
  ASSERT_EQ(topology.nodes[1].parts.size(), 2u);
  EXPECT_EQ(topology.nodes[1].parts[1].range, (Subtree{4, 6}));
  EXPECT_TRUE(topology.nodes[1].parts[1].is_raw());
}

TEST(Topology, NeedsConsecutiveRanks) { EXPECT_TRUE(plan_topology({4, 1, 4, 0}, {0, 1, 0, 1}).nodes.empty()); }

}  // namespace
}  // namespace muster::parallel
