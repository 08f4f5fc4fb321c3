// The coordinator's leases, updates and snapshots against words written by hand. Lock-step:
// coordinator_rounds_test.cpp.
#include "unit/parallel/coordinator_table.hpp"

namespace muster::parallel {
namespace {

TEST(Coordinator, GrantsAppliesAndAnswers) {
  Table t;
  t.beat(0);
  t.beat(1);
  t.ask(0, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(0, offsetof(Order, number)), 1u);
  EXPECT_EQ(t.order(0, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::train));
  EXPECT_EQ(t.order(0, offsetof(Order, first)), 0u);
  EXPECT_EQ(t.order(0, offsetof(Order, last)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 0u) << "worker 1 has not asked";
  t.commit(0, 1, 1, 0);
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  EXPECT_EQ(t.coordinator.applied()[0].version, 1);
  EXPECT_EQ(t.order(0, offsetof(Order, handled)), 1u);
  EXPECT_EQ(t.order(0, offsetof(Order, accepted)), 1u);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(1));
  EXPECT_EQ(weights[0], -1.0f);
  EXPECT_EQ(weights[elements - 1], -1.0f);
}

TEST(Coordinator, AsksForTheRateWithTheStalenessOfTheGradient) {
  Table t(0, 0, false, 0.25);
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0);  // both were computed at version 0
  t.commit(1, 1, 1, 1);
  t.coordinator.poll();
  ASSERT_EQ(t.server.version(), 2);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(2));
  EXPECT_EQ(weights[0], -1.25f);
}

/// Both gradients are 3, computed at version 0 with weights of 0; the first takes the weights to -3, so the second
/// counts as 3 + 0.5 * 3 * 3 * (-3 - 0) = -10.5, and with what its worker says it had pulled, 2: 3 + 4.5 * (-3 - 2).
TEST(Coordinator, CompensatesTheDelayOfAnOvertakenGradient) {
  Table t(0, 0, false, 1, 0.5);
  auto* pulled = reinterpret_cast<float*>(t.window->mine().data() + t.board.pulled(1, 1));
  std::fill_n(pulled, elements, 0.0f);
  pulled[5] = 2.0f;
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0, true, 0, {3.0f, 3.0f});
  t.commit(1, 1, 1, 1, true, 0, {3.0f, 3.0f});
  t.coordinator.poll();
  ASSERT_EQ(t.server.version(), 2);
  const auto* weights = reinterpret_cast<const float*>(t.window->mine().data() + t.board.version(2));
  EXPECT_EQ(weights[0], -3.0f + 10.5f);
  EXPECT_EQ(weights[5], -3.0f + 19.5f);
}

/// Three batches are one update; of a commit that says more than its worker holds, nothing is taken.
TEST(Coordinator, ACommitOfSeveralBatchesIsOneUpdate) {
  Table t(0, 0, false, 1, 0, {0, true, 1, 3});
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(0, offsetof(Order, last)), 3u);
  EXPECT_EQ(t.order(1, offsetof(Order, first)), 3u);
  EXPECT_EQ(t.order(1, offsetof(Order, last)), 4u) << "nothing more is left";
  t.batches = 2;
  t.commit(1, 1, 1, 3);
  t.batches = 3;
  t.compute_us = 600'000;
  t.commit(0, 1, 1, 0);
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  const Applied& update = t.coordinator.applied()[0];
  EXPECT_EQ(update.batch, 0);
  EXPECT_EQ(update.batches, 3);
  EXPECT_EQ(update.steps, 3);
  EXPECT_EQ(update.version, 1);
  EXPECT_EQ(t.book.applied(), 3);
  EXPECT_EQ(t.book.first_open(), 3);
  EXPECT_TRUE(t.book.holds(1, 3));
  EXPECT_EQ(t.order(1, offsetof(Order, handled)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, accepted)), 0u);
}

TEST(Coordinator, DropsCommitsOfAFormerLife) {
  Table t;
  t.ask(0, 1);
  t.coordinator.poll();
  t.lose_worker_0();
  EXPECT_EQ(t.order(0, offsetof(Order, generation)), 2u);
  t.commit(0, 1, 1, 0);  // what it pushed while it was thought gone
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.applied().empty());
  EXPECT_EQ(t.order(0, offsetof(Order, handled)), 1u);
  EXPECT_EQ(t.order(0, offsetof(Order, accepted)), 0u);
  EXPECT_EQ(t.server.version(), 0);
}

/// A worker that is back has taken over its new generation, but works through the lease of its former life, whose batch
/// another worker holds by now. Its commit may even be seen after it has been given the next lease.
TEST(Coordinator, DropsTheFormerLeaseUnderTheNewGeneration) {
  Table t;
  t.ask(0, 1);
  t.coordinator.poll();  // worker 0: batch 0
  t.lose_worker_0();
  t.ask(1, 1);
  t.beat(1);
  t.coordinator.poll();
  ASSERT_TRUE(t.book.holds(1, 0));
  t.adopt(0, 2);
  t.beat(0);
  t.ask(0, 2);
  t.coordinator.poll();
  ASSERT_TRUE(t.book.holds(0, 1));
  t.commit(0, 1, 2, 0);
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.applied().empty());
  EXPECT_EQ(t.book.committed(), 0);
  EXPECT_TRUE(t.book.holds(0, 1));
  t.commit(0, 2, 2, 1);
  t.commit(1, 1, 1, 0);
  t.beat(1);
  t.coordinator.poll();
  EXPECT_EQ(t.coordinator.applied().size(), 2u);
  EXPECT_EQ(t.book.committed(), 2);
}

TEST(Coordinator, ANotFiniteLossIsToldAndNotApplied) {
  Table t;
  t.ask(0, 1);
  t.coordinator.poll();
  t.commit(0, 1, 1, 0, false);
  t.coordinator.poll();
  ASSERT_EQ(t.coordinator.applied().size(), 1u);
  EXPECT_FALSE(t.coordinator.applied()[0].is_finite);
  EXPECT_EQ(t.server.version(), 0);
}

/// The end may come while a worker reads its order: the batches it reads must be those it was given.
TEST(Coordinator, TheEndLeavesTheBatchesOfAnOrderAlone) {
  Table t;
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  for (const int w : {0, 1}) t.put(w, offsetof(Report, has_left), 1);  // it waits for both
  t.coordinator.end();
  EXPECT_EQ(t.order(1, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::leave));
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 2u);
  EXPECT_EQ(t.order(1, offsetof(Order, first)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, last)), 2u);
  EXPECT_EQ(t.window->get_word(0, t.board.ending()), static_cast<std::uint64_t>(Ending::clean));
}

/// Worker 0 died a moment ago: the end waits until that is known, since no collective end is possible without it.
TEST(Coordinator, TheEndIsCleanOnlyWhenEverybodyHasAnswered) {
  Table t;
  t.beat(0);
  t.beat(1);
  t.coordinator.poll();
  t.put(1, offsetof(Report, has_left), 1);
  t.coordinator.end();
  EXPECT_EQ(t.window->get_word(0, t.board.ending()), static_cast<std::uint64_t>(Ending::ranks_lost));
}

/// Polls until the worker has been silent for too long; `other` lives on.
void lose(Table& t, int worker, int other) {
  const Deadline limit("the loss of a worker", 10);
  for (bool is_gone = false; !is_gone && !limit.is_over();) {
    t.beat(other);
    t.coordinator.poll();
    for (const Attendance& event : t.coordinator.attendance()) is_gone |= event.worker == worker && !event.is_back;
  }
}

TEST(Coordinator, WithoutWorkersTheRunIsDesertedAndKeepsItsVersion) {
  Table t;
  const Deadline limit("the loss of all workers", 10);
  while (!t.coordinator.is_deserted() && !limit.is_over()) t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.is_deserted());
  EXPECT_EQ(t.coordinator.live(), 0);
  t.coordinator.stop_granting();
  EXPECT_TRUE(t.coordinator.is_idle());
  t.coordinator.request_snapshot();
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.snapshot());
}

const LeaseOptions plain_leases{0, true, 1};

TEST(Coordinator, ASpareTakesThePlaceOfOneThatIsGone) {
  Table t(0, 0, false, 1, 0, plain_leases, 1);  // worker 1 is the spare
  t.ask(1, 1);
  t.beat(0);
  t.beat(1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 0u) << "a spare waits";
  lose(t, 0, 1);
  EXPECT_FALSE(t.coordinator.is_deserted());
  t.coordinator.poll();
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::train));
}

/// It held no lease when it went: its place is open all the same, and the evaluation goes to the spare.
TEST(Coordinator, ASpareTakesThePlaceOfOneThatEvaluated) {
  Table t(0, 0, false, 1, 0, plain_leases, 1);
  t.ask(1, 1);
  t.coordinator.request_snapshot();
  t.coordinator.poll();
  ASSERT_TRUE(t.coordinator.snapshot());
  t.coordinator.evaluate_snapshot();
  t.ask(0, 1);
  t.coordinator.poll();
  ASSERT_EQ(t.order(0, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::evaluate));
  lose(t, 0, 1);
  t.coordinator.poll();
  EXPECT_EQ(t.order(1, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::evaluate));
}

/// The spare itself was away when a place became open, and takes it when it is back.
TEST(Coordinator, ASpareThatIsBackTakesAnOpenPlace) {
  Table t(0, 0, false, 1, 0, plain_leases, 1);
  t.beat(0);
  t.coordinator.poll();
  lose(t, 1, 0);
  EXPECT_FALSE(t.coordinator.is_deserted());
  const Deadline limit("the loss of worker 0", 10);
  while (!t.coordinator.is_deserted() && !limit.is_over()) t.coordinator.poll();
  ASSERT_TRUE(t.coordinator.is_deserted()) << "a spare that is gone is no worker";
  t.adopt(1, 2);
  t.ask(1, 1);
  t.beat(1);
  t.coordinator.poll();
  EXPECT_FALSE(t.coordinator.is_deserted());
  EXPECT_EQ(t.order(1, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::train));
}

TEST(Coordinator, AnEvaluationThatNobodyIsLeftForEndsWithoutAResult) {
  Table t;
  t.coordinator.request_snapshot();
  t.coordinator.poll();
  t.coordinator.evaluate_snapshot();
  const Deadline limit("the loss of all workers", 10);
  while (!t.coordinator.evaluated() && !limit.is_over()) t.coordinator.poll();
  ASSERT_TRUE(t.coordinator.evaluated());
  EXPECT_EQ(t.coordinator.evaluated()->rows, 0);
  EXPECT_TRUE(t.coordinator.is_idle());
}

/// Three batches are held, one is committed; the worker sees the stop, leaves the others and asks again.
TEST(Coordinator, AtAStopTheRestOfALeaseIsGivenBack) {
  Table t(0, 0, false, 1, 0, {0, true, 1, 3});
  t.ask(0, 1);
  t.coordinator.poll();
  ASSERT_TRUE(t.book.holds(0, Range{0, 3}));
  EXPECT_EQ(t.order(0, offsetof(Order, is_stopping)), 0u);
  t.coordinator.stop_granting();
  EXPECT_EQ(t.order(0, offsetof(Order, is_stopping)), 1u);
  t.commit(0, 1, 1, 0);
  t.coordinator.poll();
  EXPECT_FALSE(t.coordinator.is_idle()) << "it may be computing still";
  t.ask(0, 2);
  t.coordinator.poll();
  EXPECT_TRUE(t.coordinator.is_idle());
  EXPECT_EQ(t.book.applied(), 1);
  EXPECT_EQ(t.order(0, offsetof(Order, number)), 1u) << "nothing new is granted";
}

TEST(Coordinator, ASnapshotKnowsWhichBatchesAreInIt) {
  Table t;
  t.ask(0, 1);
  t.ask(1, 1);
  t.coordinator.poll();
  t.commit(1, 1, 1, 1);
  t.coordinator.poll();
  t.coordinator.request_snapshot();
  EXPECT_FALSE(t.coordinator.snapshot());
  t.commit(0, 1, 1, 0);
  t.coordinator.poll();  // the snapshot comes before the commits of the same look
  const auto snapshot = t.coordinator.snapshot();
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->version, 1);
  EXPECT_EQ(snapshot->first_open, 0);
  EXPECT_EQ(snapshot->committed_beyond, std::vector<std::int64_t>{1});
  EXPECT_EQ(t.server.version(), 2);
  std::vector<float> kept(elements);
  t.coordinator.read_snapshot(0, 0, kept);
  EXPECT_EQ(kept[3], -1.0f) << "one update, not two";
}

}  // namespace
}  // namespace muster::parallel
