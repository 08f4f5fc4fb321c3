// Schedules by hand values at their edges.
#include <muster/base/error.hpp>
#include <muster/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace muster::optim {
namespace {

ScheduleOptions of(const std::string& kind) {
  ScheduleOptions options;
  options.kind = kind;
  return options;
}

std::string message_of(const ScheduleOptions& options, std::int64_t total_steps = 100) {
  try {
    Schedule(options, total_steps, 10.0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Schedule, Constant) {
  const Schedule schedule(of("constant"), 100, 10.0);
  EXPECT_EQ(schedule.factor(0), 1.0);
  EXPECT_EQ(schedule.factor(99), 1.0);
  EXPECT_EQ(schedule.factor(1000), 1.0);
}

TEST(Schedule, WarmUpRisesLinearlyAndEndsAtOne) {
  ScheduleOptions options = of("constant");
  options.warmup_steps = 4;
  const Schedule schedule(options, 100, 10.0);
  for (std::int64_t step = 0; step < 5; ++step)
    EXPECT_DOUBLE_EQ(schedule.factor(step), 0.25 * static_cast<double>(step)) << step;
  EXPECT_EQ(schedule.factor(5), 1.0);
}

TEST(Schedule, WarmUpFromAStart) {
  ScheduleOptions options = of("constant");
  options.warmup_epochs = 0.3;  // of 10 steps: 3 steps
  options.warmup_start = 0.2;
  const Schedule schedule(options, 100, 10.0);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.2);  // the very start, as PyTorch's LinearLR and Keras's schedules
  EXPECT_DOUBLE_EQ(schedule.factor(1), 0.2 + 0.8 / 3.0);
  EXPECT_DOUBLE_EQ(schedule.factor(2), 0.2 + 1.6 / 3.0);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1.0);
}

TEST(Schedule, StepsAtBoundaries) {
  ScheduleOptions options = of("step");
  options.gamma = 0.5;
  options.at_epochs = {2, 4.5};
  const Schedule schedule(options, 100, 10.0);
  EXPECT_EQ(schedule.factor(0), 1.0);
  EXPECT_EQ(schedule.factor(19), 1.0);
  EXPECT_EQ(schedule.factor(20), 0.5);
  EXPECT_EQ(schedule.factor(44), 0.5);
  EXPECT_EQ(schedule.factor(45), 0.25);
  EXPECT_EQ(schedule.factor(99), 0.25);
}

TEST(Schedule, StepCountsEpochsFromTheStartNotFromTheWarmUp) {
  ScheduleOptions options = of("step");
  options.at_epochs = {1};
  options.warmup_steps = 5;
  const Schedule schedule(options, 100, 10.0);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 4.0 / 5.0);
  EXPECT_EQ(schedule.factor(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 0.1);
}

TEST(Schedule, ExponentialFallsOncePerEpoch) {
  ScheduleOptions options = of("exponential");
  options.gamma = 0.5;
  const Schedule schedule(options, 100, 10.0);
  EXPECT_EQ(schedule.factor(9), 1.0);
  EXPECT_EQ(schedule.factor(10), 0.5);
  EXPECT_EQ(schedule.factor(39), 0.125);
}

TEST(Schedule, Cosine) {
  ScheduleOptions options = of("cosine");
  options.min_factor = 0.2;
  const Schedule schedule(options, 100, 10.0);
  EXPECT_EQ(schedule.factor(0), 1.0);
  EXPECT_NEAR(schedule.factor(50), 0.6, 1e-12);
  EXPECT_NEAR(schedule.factor(25), 0.2 + 0.8 * (0.5 + 0.25 * std::sqrt(2.0)), 1e-12);
  EXPECT_GT(schedule.factor(99), 0.2);
  EXPECT_NEAR(schedule.factor(100), 0.2, 1e-12);
  EXPECT_NEAR(schedule.factor(150), 0.2, 1e-12);
}

TEST(Schedule, CosineBeginsAfterTheWarmUp) {
  ScheduleOptions options = of("cosine");
  options.warmup_epochs = 2;
  const Schedule schedule(options, 100, 10.0);
  EXPECT_DOUBLE_EQ(schedule.factor(19), 19.0 / 20.0);
  EXPECT_EQ(schedule.factor(20), 1.0);
  EXPECT_NEAR(schedule.factor(60), 0.5, 1e-12);
  EXPECT_NEAR(schedule.factor(100), 0.0, 1e-12);
}

TEST(Schedule, Polynomial) {
  ScheduleOptions options = of("polynomial");
  options.power = 2.0;
  options.min_factor = 0.1;
  const Schedule schedule(options, 10, 5.0);
  EXPECT_EQ(schedule.factor(0), 1.0);
  EXPECT_NEAR(schedule.factor(5), 0.1 + 0.9 * 0.25, 1e-12);
  EXPECT_NEAR(schedule.factor(9), 0.1 + 0.9 * 0.01, 1e-12);
  EXPECT_NEAR(schedule.factor(10), 0.1, 1e-12);
}

TEST(Schedule, AWarmUpMayFillTheTraining) {
  ScheduleOptions options = of("cosine");
  options.warmup_steps = 10;
  const Schedule schedule(options, 10, 5.0);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 9.0 / 10.0);
  EXPECT_EQ(schedule.factor(10), 1.0);
  EXPECT_EQ(Schedule(of("cosine"), 1, 1.0).factor(0), 1.0);
}

TEST(Schedule, Refuses) {
  EXPECT_EQ(message_of(of("cosin")),
            "schedule: unknown kind 'cosin', expected one of constant, step, exponential, cosine, polynomial; did you "
            "mean 'cosine'?");
  ScheduleOptions options = of("constant");
  options.warmup_steps = 101;
  EXPECT_EQ(message_of(options), "schedule: the warm-up of 101 steps is longer than the training of 100 steps");
  options.warmup_steps = 5;
  options.warmup_epochs = 1;
  EXPECT_EQ(message_of(options), "schedule: warmup_epochs and warmup_steps exclude each other; give one");
  const std::vector<std::pair<const char*, double ScheduleOptions::*>> fields{
      {"warmup_epochs", &ScheduleOptions::warmup_epochs},
      {"warmup_start", &ScheduleOptions::warmup_start},
      {"min_factor", &ScheduleOptions::min_factor},
      {"power", &ScheduleOptions::power},
      {"gamma", &ScheduleOptions::gamma}};
  for (const auto& [key, field] : fields) {
    ScheduleOptions bad = of("polynomial");
    bad.*field = -0.5;
    EXPECT_NE(message_of(bad).find("schedule." + std::string(key) + ": expected "), std::string::npos)
        << message_of(bad);
  }
  ScheduleOptions bad = of("step");
  bad.at_epochs = {3, 0};
  EXPECT_EQ(message_of(bad), "schedule.at_epochs: expected epochs above 0, found 0");
}

}  // namespace
}  // namespace muster::optim
