// Small sums along the tree: the recursive tree's bits on every rank, whatever the transport and the ranks' timing.
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"
#include "unit/parallel/tree.hpp"

#include <muster/base/error.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <random>
#include <thread>

MUSTER_RANKS(StatisticSums, 1, 2, 3, 4, 7);

namespace muster::parallel {
namespace {

double value(std::int64_t grain, std::int64_t i, std::int64_t call) {
  return static_cast<double>(test::leaf(grain, i, call)) / 3.0;
}

void check(StatisticSum& sums, const GrainPlan& plan, std::int64_t width, std::int64_t call) {
  const Range owned = plan.grains_of(plan.replica);
  std::vector<double> rows;
  for (std::int64_t g = owned.begin; g < owned.end; ++g)
    for (std::int64_t i = 0; i < width; ++i) rows.push_back(value(g, i, call));
  std::vector<double> totals(static_cast<std::size_t>(width), -1.0);
  sums.sum(rows, totals, "statistics");
  for (std::int64_t i = 0; i < width; ++i)
    ASSERT_EQ(totals[static_cast<std::size_t>(i)],
              test::tree_total<double>(plan.grains, [&](std::int64_t g) { return value(g, i, call); }))
        << plan.grains << " grains, width " << width << ", call " << call << ", index " << i;
}

void check_all_widths() {
  const auto data = test::world();
  for (std::int64_t grains : {1, 2, 3, 5, 8, 13}) {
    const GrainPlan plan{grains, 1, data->size(), data->rank()};
    const auto sums = make_statistic_sum(*data, plan, 1001);
    std::int64_t call = 0;
    for (std::int64_t width : {1, 1001, 0, 33, 2}) check(*sums, plan, width, call++);
    EXPECT_GE(sums->waited_s(), 0.0);
    sums->close();
  }
}

TEST(StatisticSums, GiveTheTreesBitsThroughSharedMemory) { check_all_widths(); }

TEST(StatisticSums, GiveTheTreesBitsThroughMessages) {
  const test::ScopedVariable nodes("MUSTER_FAKE_NODE_SIZE", "1");
  check_all_widths();
}

TEST(StatisticSums, SurviveRanksOutOfStep) {
  const auto data = test::world();
  const GrainPlan plan{8, 1, data->size(), data->rank()};
  const auto sums = make_statistic_sum(*data, plan, 64);
  std::mt19937 random(static_cast<unsigned>(5 + data->rank()));
  for (std::int64_t call = 0; call < 300; ++call) {
    if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    check(*sums, plan, 1 + call % 64, call);
  }
  sums->close();
}

TEST(StatisticSums, RefuseMoreThanTheyHoldRoomFor) {
  const auto data = test::world();
  const GrainPlan plan{data->size(), 1, data->size(), data->rank()};
  const auto sums = make_statistic_sum(*data, plan, 2);
  std::vector<double> three(3);
  EXPECT_THROW(sums->sum(three, three, "too wide"), Error);
  std::vector<double> two(2);
  EXPECT_THROW(sums->sum(three, two, "rows do not fit"), Error);
  sums->close();
}

}  // namespace
}  // namespace muster::parallel
