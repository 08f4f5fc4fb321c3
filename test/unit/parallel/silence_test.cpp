// Whose silence counts: the rules of parallel/server/silence.hpp, by hand.
#include "parallel/server/silence.hpp"

#include <gtest/gtest.h>

namespace muster::parallel {
namespace {

TEST(Silence, GrowsWhileTheWordStaysAndEndsWhenItGrows) {
  Silence silence;
  EXPECT_EQ(silence.look(5, 100, 8), 0);
  EXPECT_EQ(silence.look(5, 101, 8), 1);
  EXPECT_EQ(silence.look(5, 102.5, 8), 2.5);
  EXPECT_EQ(silence.look(6, 103, 8), 0);
  EXPECT_EQ(silence.look(6, 104, 8), 1);
}

/// Held up for a minute between two looks, one has seen two quarters of the deadline at most.
TEST(Silence, OfTheOneWhoLooksIsNotTheOthers) {
  Silence silence;
  silence.look(5, 100, 8);
  EXPECT_EQ(silence.look(5, 160, 8), 2);
  EXPECT_EQ(silence.look(5, 220, 8), 4);
  EXPECT_EQ(silence.look(7, 280, 8), 0);
}

}  // namespace
}  // namespace muster::parallel
