// Why and when a run is asked to stop.
#include <muster/base/clock.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/stop_watcher.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>

namespace muster::train {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

bool is_stopped_within(double seconds) {
  const Deadline limit("a stop", seconds);
  while (!limit.is_over())
    if (is_stop_requested()) return true;
  return false;
}

TEST(StopWatcher, TheReserveHoldsTwoSavesAndAStep) {
  const Reserve reserve{3, 0.5, 4};
  EXPECT_DOUBLE_EQ(reserve.total_s(), 3 + 0.5 + 3 + 0.5 + 4 + 2);  // save, step, save, step, evaluation, the end
  EXPECT_DOUBLE_EQ(guessed_save_s(100e6), 3);                      // 1 s and 100 MB at 50 MB/s
}

TEST(StopWatcher, AMeasuredSaveReplacesTheGuessAndTheLongestCounts) {
  StopWatcher watcher("nowhere", never, 100, true);
  watcher.saved(2);
  watcher.saved(1);
  watcher.stepped(0.25);
  watcher.stepped(0.125);
  EXPECT_DOUBLE_EQ(watcher.reserve().total_s(), 2 * 2 + 2 * 0.25 + 2);
  EXPECT_FALSE(is_stopped_within(0.3));
}

TEST(StopWatcher, StopsWhenOnlyTheReserveIsLeft) {
  clear_stop_request();
  const double reserve_s = 2 * 10 + Reserve::end_of_job_s;
  const StopWatcher watcher("nowhere", now_s() + reserve_s + 0.5, 10, true);
  EXPECT_FALSE(is_stopped_within(0.25));
  EXPECT_TRUE(is_stopped_within(2));
  EXPECT_EQ(stop_reason(), StopReason::wall_time);
}

TEST(StopWatcher, AWishEndsWithItsRun) {
  clear_stop_request();
  {
    const StopWatcher watcher("nowhere", now_s(), 0, true);
    EXPECT_TRUE(is_stopped_within(2));
  }
  EXPECT_FALSE(is_stop_requested());
}

TEST(StopWatcher, ARunThatEndsDoesNotWaitForTheNextLook) {
  const Stopwatch watch;
  for (int i = 0; i < 20; ++i) const StopWatcher watcher("nowhere", never, 0, true);
  EXPECT_LT(watch.elapsed_s(), 20 * 0.2 / 2) << "looks are 0.2 s apart";
}

TEST(StopWatcher, TheFileStopsAResumedRunAndIsRemovedForANewOne) {
  clear_stop_request();
  const auto run = std::filesystem::temp_directory_path() / "stop_watcher_test";
  std::filesystem::create_directories(run);
  std::ofstream(run / "stop").put('\n');
  {
    const StopWatcher watcher(run, never, 0, true);
    EXPECT_TRUE(is_stopped_within(2));
    EXPECT_EQ(stop_reason(), StopReason::file);
  }
  {
    const StopWatcher watcher(run, never, 0, false);
    EXPECT_FALSE(is_stopped_within(0.5));
  }
  EXPECT_FALSE(std::filesystem::exists(run / "stop"));
  std::filesystem::remove_all(run);
}

TEST(StopWatcher, TheLargestReasonIsKept) {
  clear_stop_request();
  wish_to_stop(StopReason::wall_time);
  wish_to_stop(StopReason::file);
  EXPECT_EQ(stop_reason(), StopReason::wall_time);
  clear_stop_wish();
  EXPECT_EQ(stop_reason(), StopReason::none);
}

TEST(EndOfTime, IsTheSoonerOfTheWallTimeAndTheJobsEnd) {
  unsetenv("SLURM_JOB_END_TIME");
  EXPECT_EQ(end_of_time_s({}), never);
  EXPECT_NEAR(end_of_time_s({false, 1000}), now_s() - since_process_start_s() + 1000, 0.1);
  setenv("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 100).c_str(), 1);
  EXPECT_NEAR(end_of_time_s({}), now_s() + 100, 1.1);
  EXPECT_NEAR(end_of_time_s({false, 1000}), now_s() + 100, 1.1);
  EXPECT_LT(end_of_time_s({false, 5}), now_s() + 6);
  EXPECT_EQ(end_of_time_s({false, 0}), never);
  unsetenv("SLURM_JOB_END_TIME");
}

}  // namespace
}  // namespace muster::train
