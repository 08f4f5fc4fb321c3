// Elastic averaging by hand, and the servers' side of a change.
#include "train/local_steps.hpp"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

/// x = (4, -1), c = (0, 3), alpha 1/4: both go a quarter of the way, 4, to each other.
TEST(LocalSteps, ElasticWeightsAndTheServersGoTowardsEachOther) {
  std::vector<float> own{4, -1}, center{0, 3}, change(2);
  draw_together(center, 0.25, own, change);
  EXPECT_EQ(change, (std::vector<float>{-1, 1}));
  EXPECT_EQ(own, (std::vector<float>{3, 0}));
  const std::vector<optim::ParamRun> runs{{"w", {0, 2}, true}};
  make_change_optimizer()->update({1, 1, 1, 1}, center, change, {}, runs);
  EXPECT_EQ(center, (std::vector<float>{1, 2}));
}

/// At a rate of 1/staleness; nothing else is done to it (no decay, no momentum).
TEST(LocalSteps, TheServersSubtractAChangeAtItsRate) {
  const auto optimizer = make_change_optimizer();
  EXPECT_TRUE(optimizer->slots().empty());
  std::vector<float> weights{10, 20};
  const std::vector<float> change{2, -4};
  const std::vector<optim::ParamRun> runs{{"w", {0, 2}, true}};
  optimizer->update({0.5, 7, 1, 1}, weights, change, {}, runs);
  EXPECT_EQ(weights, (std::vector<float>{9, 22}));
}

}  // namespace
}  // namespace muster::train
