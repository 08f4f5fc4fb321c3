// Lifelines: the sockets of a rank close when its Lifeline goes, as they do when its process ends.
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"

#include <muster/base/clock.hpp>
#include <muster/comm/lifeline.hpp>

#include <atomic>

#include <sched.h>

MUSTER_RANKS(Lifelines, 1, 2, 3, 4);

namespace muster::comm {
namespace {

/// Ranks 0 and 1 are watched. Returns the bits of those whose loss this rank has seen within the time.
int losses_after(bool says_farewell, double seconds, int expected) {
  const auto world = test::world();
  std::atomic<int> lost = 0;
  const int watched = std::min(world->size(), 2);
  auto lifeline = std::make_unique<Lifeline>(*world, watched, [&](int rank) { lost |= 1 << rank; });
  EXPECT_TRUE(lifeline->untied().empty()) << lifeline->untied().front();
  EXPECT_EQ(lost, 0);
  world->barrier("all are tied");
  if (world->rank() == 0) {  // ends first
    if (says_farewell) lifeline->say_farewell();
    lifeline.reset();
  }
  const Deadline limit("losses", seconds);
  while (!limit.is_over() && lost != expected) ::sched_yield();
  const int seen = lost;
  world->barrier("all have looked");
  return seen;
}

TEST(Lifelines, TellOfAProcessThatEnds) {
  const int expected = test::session().world().rank() == 0 ? 0 : 1;
  EXPECT_EQ(losses_after(false, expected == 0 ? 0 : 10, expected), expected);
}

TEST(Lifelines, AFarewellIsNoLoss) { EXPECT_EQ(losses_after(true, 0.3, -1), 0); }

}  // namespace
}  // namespace muster::comm
