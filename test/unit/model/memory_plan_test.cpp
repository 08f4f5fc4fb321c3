// The memory plan: buffers that live at the same time never share an address, others do.
#include <gtest/gtest.h>

#include <muster/base/rng.hpp>
#include <muster/model/memory_plan.hpp>

namespace muster::model {
namespace {

TEST(MemoryPlan, BuffersOneAfterTheOtherShareOnePlace) {
  const MemoryPlan plan = plan_memory({{100, 0, 1}, {100, 2, 3}, {100, 4, 5}});
  EXPECT_EQ(plan.arena_bytes, 128u);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 0, 0}));
}

TEST(MemoryPlan, ALifetimeIncludesBothEnds) {
  const MemoryPlan plan = plan_memory({{64, 0, 2}, {64, 2, 3}});
  EXPECT_EQ(plan.arena_bytes, 128u);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, EmptyBuffersAndAnEmptyPlan) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0u);
  EXPECT_EQ(plan_memory({{0, 0, 5}}).arena_bytes, 0u);
}

TEST(MemoryPlan, RandomLifetimesNeverCollide) {
  for (std::uint32_t round = 0; round < 50; ++round) {
    const RandomStream stream(round, Purpose::test, 0, 0);
    std::vector<Lifetime> buffers;
    std::size_t all = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const int first = static_cast<int>(stream.below(3 * i, 60));
      const std::size_t bytes = stream.below(3 * i + 1, 5000);
      buffers.push_back({bytes, first, first + static_cast<int>(stream.below(3 * i + 2, 12))});
      all += (bytes + 63) / 64 * 64;
    }
    const MemoryPlan plan = plan_memory(buffers);
    EXPECT_LE(plan.arena_bytes, all);
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0u);
      EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.arena_bytes);
      for (std::size_t b = 0; b < a; ++b) {
        const bool meet = buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
        const bool overlap = plan.offsets[a] < plan.offsets[b] + buffers[b].bytes &&
                             plan.offsets[b] < plan.offsets[a] + buffers[a].bytes;
        EXPECT_FALSE(meet && overlap && buffers[a].bytes > 0 && buffers[b].bytes > 0)
            << "buffers " << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace muster::model
