// Clocks and deadlines.
#include <muster/base/clock.hpp>
#include <muster/base/ids.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <type_traits>

namespace muster {
namespace {

// Numbers of different meaning must not mix.
static_assert(!std::is_convertible_v<int, WorldRank>);
static_assert(!std::is_convertible_v<WorldRank, int>);
static_assert(!std::is_constructible_v<WorldRank, ReplicaIndex>);
static_assert(Range{2, 5}.size() == 3 && !Range{2, 5}.empty() && Range{5, 5}.empty());

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(Clock, NeverRunsBackwards) {
  double before = now_s();
  for (int i = 0; i < 1000; ++i) {
    const double now = now_s();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, CountsSeconds) {
  const Stopwatch watch;
  sleep_ms(50);
  EXPECT_GE(watch.elapsed_s(), 0.05);
  EXPECT_LT(watch.elapsed_s(), 5.0);
}

TEST(Clock, RestartsAtZero) {
  Stopwatch watch;
  sleep_ms(50);
  watch.restart();
  EXPECT_LT(watch.elapsed_s(), 0.05);
}

TEST(Clock, KnowsTheAgeOfTheProcess) {
  const double first = since_process_start_s();
  EXPECT_GE(first, -0.02);  // the kernel counts in ticks of 10 ms
  EXPECT_LT(first, 300.0);
  sleep_ms(100);
  EXPECT_NEAR(since_process_start_s() - first, 0.1, 0.09);
}

TEST(Deadline, PassesAndKnowsItsOperation) {
  const Deadline deadline("the broadcast of weights", 0.03);
  EXPECT_FALSE(deadline.is_over());
  EXPECT_EQ(deadline.operation(), "the broadcast of weights");
  EXPECT_DOUBLE_EQ(deadline.limit_s(), 0.03);
  sleep_ms(40);
  EXPECT_TRUE(deadline.is_over());
  EXPECT_GE(deadline.elapsed_s(), 0.04);
}

}  // namespace
}  // namespace muster
