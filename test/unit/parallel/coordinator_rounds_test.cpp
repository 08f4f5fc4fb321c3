// The coordinator's rounds in lock-step, where every worker computes a share of each batch, against words written by
// hand.
#include "unit/parallel/coordinator_table.hpp"

#include <limits>

namespace muster::parallel {
namespace {

constexpr std::int64_t always = std::numeric_limits<std::int64_t>::max();

/// Three grains over two workers: worker 0 has grain 0, worker 1 grains 1 and 2, which are two subtrees (the tree is
/// ((0 1) 2)). So the update is 1 + 10 + 100, at rate 1.
TEST(Coordinator, ARoundMakesOneUpdateOfAllShares) {
  Table t(always);
  t.ask(0, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(0, offsetof(Order, number)), 0u) << "worker 1 has not asked";
  t.ask(1, 1);
  t.coordinator.poll();
  for (int w : {0, 1}) {
    EXPECT_EQ(t.order(w, offsetof(Order, number)), 1u);
    EXPECT_EQ(t.order(w, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::share));
    EXPECT_EQ(t.order(w, offsetof(Order, first)), 0u);
    EXPECT_EQ(t.order(w, offsetof(Order, version)), 0u);
    EXPECT_EQ(t.order(w, offsetof(Order, replicas)), 2u);
    EXPECT_EQ(t.order(w, offsetof(Order, replica)), static_cast<std::uint64_t>(w));
    EXPECT_EQ(t.order(w, offsetof(Order, running_round)), 1u);
  }
  t.compute_us = 500'000;
  t.commit(1, 1, 1, 0, true, 1, {10.0f, 100.0f});
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.applied().empty()) << "a share is missing";
  EXPECT_EQ(t.order(1, offsetof(Order, handled)), 0u);
  t.compute_us = 250'000;
  t.commit(0, 1, 1, 0, true, 1, {1.0f, 5000.0f});
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  const Applied& update = t.coordinator.applied()[0];
  EXPECT_EQ(update.shares.size(), 2u);
  EXPECT_EQ(update.rows, 2);
  EXPECT_EQ(update.compute_s, 0.5) << "the slower one's";
  EXPECT_EQ(update.version, 1);
  EXPECT_EQ(t.book.committed(), 1);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(1));
  EXPECT_EQ(weights[0], -111.0f);
  EXPECT_EQ(weights[elements - 1], -111.0f);
  for (int w : {0, 1}) EXPECT_EQ(t.order(w, offsetof(Order, accepted)), 1u);
}

/// The norm of 16 elements of 111 is 444; clipped to 4, each is 1.
TEST(Coordinator, ARoundIsClippedByTheNormOfItsSum) {
  Table t(always, 4);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0, true, 1, {1.0f, 0.0f});
  t.commit(1, 1, 1, 0, true, 1, {10.0f, 100.0f});
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.applied().empty()) << "first the norm";
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(1));
  EXPECT_FLOAT_EQ(weights[3], -1.0f);
}

/// The worker that is left is told that the round is void, its late share is dropped, and it computes the whole batch.
TEST(Coordinator, ALostWorkerVoidsTheRound) {
  Table t(always);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.lose_worker_0();
  EXPECT_EQ(t.order(1, offsetof(Order, running_round)), 0u);
  t.commit(1, 1, 1, 0, true, 1, {10.0f, 100.0f});
  t.beat(1);
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.applied().empty());
  EXPECT_EQ(t.order(1, offsetof(Order, handled)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, accepted)), 0u);
  EXPECT_EQ(t.book.committed(), 0);
  t.ask(1, 2);
  t.beat(1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(1, offsetof(Order, replicas)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, first)), 0u) << "the same batch";
  EXPECT_EQ(t.order(1, offsetof(Order, round)), 2u);
  t.commit(1, 2, 1, 0, true, 2, {7.0f, 5000.0f});
  t.beat(1);
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(1));
  EXPECT_EQ(weights[0], -7.0f);
}

/// A worker that has been told to evaluate asks again when it is done; the round must not start before its result is
/// looked at, or it is never found.
TEST(Coordinator, NoRoundStartsBeforeTheResultOfAnEvaluationIsThere) {
  Table t(always);
  t.coordinator.request_snapshot();
  t.coordinator.poll();
  ASSERT_TRUE(t.coordinator.snapshot());
  t.coordinator.evaluate_snapshot();
  t.ask(0, 1);
  t.coordinator.poll();
  ASSERT_EQ(t.order(0, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::evaluate));
  t.ask(0, 2);
  t.ask(1, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 0u);
  t.put(0, offsetof(Report, result_of), 1);
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.evaluated());
  EXPECT_EQ(t.order(0, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::share));
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 1u);
}

/// A version that is to be kept while the last one is still in use: in lock-step it is made later, ...
TEST(Coordinator, LockStepWaitsForThePlaceOfASnapshotThatIsDue) {
  Table t(always, 0, true);
  for (std::uint64_t round = 1; round <= 2; ++round) {
    t.ask(0, round);
    t.ask(1, round);
    t.coordinator.poll();
    t.commit(0, round, 1, round - 1, true, round);
    t.commit(1, round, 1, round - 1, true, round);
    t.coordinator.poll();
  }
  EXPECT_EQ(t.server.version(), 1);
  ASSERT_TRUE(t.coordinator.snapshot());
  t.coordinator.release_snapshot();
  t.coordinator.poll();
  EXPECT_EQ(t.server.version(), 2);
  ASSERT_TRUE(t.coordinator.snapshot());
  EXPECT_EQ(t.coordinator.snapshot()->version, 2);
}

/// ... else a later version is kept in its stead.
TEST(Coordinator, ASnapshotThatIsDueComesAtTheNextVersionWithAFreePlace) {
  Table t(0, 0, true);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0);
  t.commit(1, 1, 1, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.server.version(), 2);
  EXPECT_EQ(t.coordinator.snapshot()->version, 1);
  t.coordinator.release_snapshot();
  t.coordinator.poll();
  ASSERT_TRUE(t.coordinator.snapshot());
  EXPECT_EQ(t.coordinator.snapshot()->version, 2);
}

TEST(Coordinator, AShareThatIsNotFiniteEndsTheRound) {
  Table t(always);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0, true, 1);
  t.commit(1, 1, 1, 0, false, 1);
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  EXPECT_FALSE(t.coordinator.applied()[0].is_finite);
  EXPECT_EQ(t.server.version(), 0);
}

TEST(Coordinator, AfterTheLockStepWorkersTakeLeases) {
  Table t(1);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0, true, 1);
  t.commit(1, 1, 1, 0, true, 1);
  t.coordinator.poll();
  t.ask(0, 2);
  t.coordinator.poll();
  EXPECT_EQ(t.order(0, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::train)) << "without waiting";
  EXPECT_EQ(t.order(0, offsetof(Order, first)), 1u);
}

}  // namespace
}  // namespace muster::parallel
