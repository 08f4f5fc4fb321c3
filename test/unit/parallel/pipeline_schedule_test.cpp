// Schedules of a pipeline: every micro-batch once in each direction, no step before what it needs, activations bounded,
// the bubble's share as worked out by hand.
#include "unit/message_of.hpp"

#include <gtest/gtest.h>

#include <muster/base/error.hpp>
#include <muster/parallel/pipeline/schedule.hpp>

#include <algorithm>

namespace muster::parallel {
namespace {

constexpr PipelineKind kinds[] = {PipelineKind::gpipe, PipelineKind::one_forward_one_backward};

PipelineStep forward(std::int64_t m) { return {true, m}; }
PipelineStep backward(std::int64_t m) { return {false, m}; }

TEST(PipelineSchedule, ByHand) {
  using Steps = std::vector<PipelineStep>;
  EXPECT_EQ(pipeline_schedule(PipelineKind::gpipe, 2, 0, 2), (Steps{forward(0), forward(1), backward(0), backward(1)}));
  EXPECT_EQ(
      pipeline_schedule(PipelineKind::one_forward_one_backward, 3, 0, 4),
      (Steps{forward(0), forward(1), forward(2), backward(0), forward(3), backward(1), backward(2), backward(3)}));
  EXPECT_EQ(pipeline_schedule(PipelineKind::one_forward_one_backward, 3, 2, 3),
            (Steps{forward(0), backward(0), forward(1), backward(1), forward(2), backward(2)}));
}

TEST(PipelineSchedule, OneStageIsPlainAccumulation) {
  EXPECT_EQ(pipeline_schedule(PipelineKind::one_forward_one_backward, 1, 0, 2),
            (std::vector<PipelineStep>{forward(0), backward(0), forward(1), backward(1)}));
  for (const PipelineKind kind : kinds)
    EXPECT_EQ(pipeline_schedule(kind, 1, 0, 1), (std::vector<PipelineStep>{forward(0), backward(0)}));
}

TEST(PipelineSchedule, EveryMicroBatchOnceInOrderAndActivationsBounded) {
  for (const PipelineKind kind : kinds)
    for (int stages = 1; stages <= 5; ++stages)
      for (std::int64_t micro = stages; micro <= 9; ++micro)
        for (int s = 0; s < stages; ++s) {
          const auto steps = pipeline_schedule(kind, stages, s, micro);
          ASSERT_EQ(static_cast<std::int64_t>(steps.size()), 2 * micro);
          std::int64_t forwards = 0, backwards = 0;
          for (const PipelineStep& step : steps) {
            EXPECT_EQ(step.micro_batch, step.is_forward ? forwards++ : backwards++);
            EXPECT_LE(backwards, forwards);
          }
          const std::int64_t bound = kind == PipelineKind::gpipe ? micro : stages - s;
          EXPECT_EQ(most_in_flight(steps), bound) << stages << " stages, stage " << s << ", " << micro;
        }
}

TEST(PipelineSchedule, NothingRunsBeforeWhatItNeeds) {
  const std::vector<double> costs{1, 3, 2, 5};
  for (const PipelineKind kind : kinds)
    for (std::int64_t micro = 4; micro <= 8; ++micro) {
      const PipelineTimes times = pipeline_times(kind, micro, costs, 2);
      // begin[s][m] by direction
      std::vector<std::vector<double>> begin[2];
      for (int s = 0; s < 4; ++s) {
        const auto steps = pipeline_schedule(kind, 4, s, micro);
        for (auto& direction : begin) direction.emplace_back(static_cast<std::size_t>(micro));
        double free_at = 0;
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const double at = times.begin[static_cast<std::size_t>(s)][i];
          begin[steps[i].is_forward].back()[static_cast<std::size_t>(steps[i].micro_batch)] = at;
          EXPECT_GE(at, free_at);  // one thing at a time
          free_at = at + costs[static_cast<std::size_t>(s)] * (steps[i].is_forward ? 1 : 2);
        }
        EXPECT_LE(free_at, times.length);
      }
      for (std::size_t s = 1; s < 4; ++s)
        for (std::size_t m = 0; m < static_cast<std::size_t>(micro); ++m) {
          EXPECT_GE(begin[true][s][m], begin[true][s - 1][m] + costs[s - 1]);
          EXPECT_GE(begin[false][s - 1][m], begin[false][s][m] + 2 * costs[s]);
        }
    }
}

TEST(PipelineSchedule, BubbleOfEqualStages) {
  for (const PipelineKind kind : kinds)
    for (int stages = 1; stages <= 5; ++stages)
      for (std::int64_t micro = stages; micro <= 12; ++micro)
        for (double ratio : {1.0, 2.0}) {
          const std::vector<double> costs(static_cast<std::size_t>(stages), 0.25);
          const PipelineTimes times = pipeline_times(kind, micro, costs, ratio);
          EXPECT_NEAR(times.bubble_share, (stages - 1.0) / (static_cast<double>(micro) + stages - 1.0), 1e-12);
          EXPECT_NEAR(times.length, 0.25 * (1 + ratio) * (static_cast<double>(micro) + stages - 1), 1e-12);
        }
}

TEST(PipelineSchedule, BubbleOfUnequalStagesByHand) {
  // Costs 1 and 3, backward as long as forward, 2 micro-batches: stage 1 is busy from 1 to 13, stage 0 ends at 14.
  // Work 2 * 2 * (1 + 3) = 16 of 2 * 14.
  const std::vector<double> costs{1, 3};
  EXPECT_NEAR(pipeline_times(PipelineKind::one_forward_one_backward, 2, costs, 1).bubble_share, 1 - 16.0 / 28, 1e-12);
}

TEST(PipelineSchedule, Timeline) {
  EXPECT_EQ(pipeline_timeline(PipelineKind::one_forward_one_backward, 2, 2),
            (std::vector<std::string>{"stage 0 | F0 F1 .. .. B0 B0 .. B1 B1",  //
                                      "stage 1 | .. F0 B0 B0 F1 B1 B1 .. .."}));
  EXPECT_EQ(pipeline_timeline(PipelineKind::gpipe, 1, 1), (std::vector<std::string>{"stage 0 | F0 B0 B0"}));
}

TEST(PipelineSchedule, RefusesFewerMicroBatchesThanStages) {
  for (const PipelineKind kind : kinds)
    EXPECT_EQ(test::message_of([&] { pipeline_schedule(kind, 3, 0, 2); }),
              "a pipeline of 3 stages needs at least 3 micro-batches, found 2");
}

TEST(PipelineSchedule, Names) {
  EXPECT_EQ(pipeline_kind("gpipe"), PipelineKind::gpipe);
  EXPECT_EQ(pipeline_kind("1f1b"), PipelineKind::one_forward_one_backward);
  EXPECT_THROW(pipeline_kind("2f2b"), Error);
}

}  // namespace
}  // namespace muster::parallel
