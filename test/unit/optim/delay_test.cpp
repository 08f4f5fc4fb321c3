// The compensation of a delay, by hand.
#include <muster/optim/delay.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace muster::optim {
namespace {

TEST(CompensateDelay, AddsTheSquareTimesTheWayThatTheWeightsHaveGone) {
  const std::vector<float> gradient{1, -2, 3, 0}, now{5, 1, 4, 9}, then{3, 2, 4, 1};
  std::vector<float> out(4);
  compensate_delay(gradient, 1, 0.25, now, then, out);
  EXPECT_EQ(out, (std::vector<float>{1 + 0.25f * 1 * 2, -2 + 0.25f * 4 * -1, 3, 0}));
}

TEST(CompensateDelay, TakesTheClippedGradientAndMayWriteOverIt) {
  std::vector<float> values{4, -8};
  const std::vector<float> now{1, 1}, then{0, 3};
  compensate_delay(values, 0.5, 2, now, then, values);
  EXPECT_EQ(values, (std::vector<float>{2 + 2 * 4 * 1, -4 + 2 * 16 * -2}));
}

/// Of the loss w^4 / 4 (gradient w^3, curvature 3 w^2) at 1 while the weights are at 0.9: the outer product is a third
/// of the curvature, so a strength of 3 gives the first-order estimate 1 + 3 * 1 * (-0.1) = 0.7, near 0.9^3 = 0.729.
TEST(CompensateDelay, EstimatesTheGradientAtTheWeightsOfNow) {
  const std::vector<float> gradient{1}, now{0.9f}, then{1};
  std::vector<float> out(1);
  compensate_delay(gradient, 1, 3, now, then, out);
  EXPECT_NEAR(out[0], 0.7, 1e-6);
}

}  // namespace
}  // namespace muster::optim
