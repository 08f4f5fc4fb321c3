// The coordinator against words written by hand in its window, as workers would write them at the worst moments. One
// process, one server, deterministic.
#include "parallel/server/board.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace muster::parallel {
namespace {

constexpr double deadline_s = 0.05;
constexpr std::int64_t elements = 16;

struct Table {
  std::unique_ptr<comm::Session> session = comm::start_session({});
  Roles roles{1, 2, 0};
  std::vector<optim::ParamRun> runs{{"w", {0, elements}, true}};
  Shards shards = cut_shards(elements, 0, 1, false, runs);
  WindowSizes sizes{0, 2, 4, true};
  Board board{roles, shards, 0, sizes};
  std::unique_ptr<comm::Window> window = session->world().window(board.bytes(), comm::WindowKind::shared);
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
  ShardServer server{*window, roles, shards, sizes, 0, *optimizer, runs, 1};
  LeaseBook book;
  Coordinator coordinator;
  std::array<std::uint64_t, 2> beats{};
  std::uint64_t compute_us = 0, batches = 1;  // of the commits to come

  explicit Table(std::int64_t lock_step_until = 0, double clip_norm = 0, bool keeps_all = false, double stale_rate = 1,
                 double delay_compensation = 0, LeaseOptions leases = {0, true, 1})
      : book({0, 4}, {}, 2, leases),
        coordinator(*window, roles, shards, sizes, server, book,
                    [stale_rate](std::int64_t, std::int64_t staleness) { return staleness > 0 ? stale_rate : 1.0; },
                    {deadline_s, [keeps_all](std::int64_t, std::int64_t) { return keeps_all; }, lock_step_until,
                     [](int) { return std::int64_t{3}; }, clip_norm, delay_compensation}) {
    server.start(0, std::vector<float>(elements), {});
  }

  void put(int worker, std::size_t field, std::uint64_t value) {
    window->put_word(value, 0, board.report(worker) + field);
  }
  std::uint64_t order(int worker, std::size_t field) { return window->get_word(0, board.order(worker) + field); }
  void beat(int worker) { put(worker, offsetof(Report, beat), ++beats[static_cast<std::size_t>(worker)]); }
  void ask(int worker, std::uint64_t number) { put(worker, offsetof(Report, wants), number); }
  void adopt(int worker, std::uint64_t generation) { put(worker, offsetof(Report, generation), generation); }
  /// Writes the commit's gradient (its parts are all `values`), its record and its word. round: of a share.
  void commit(int worker, std::uint64_t number, std::uint64_t generation, std::uint64_t batch, bool is_finite = true,
              std::uint64_t round = 0, std::array<float, 2> values = {1.0f, 1.0f}) {
    for (int part = 0; part < 2; ++part) {
      auto* gradient = reinterpret_cast<float*>(window->mine().data() + board.slot(worker, number, part));
      std::fill_n(gradient, elements, values[static_cast<std::size_t>(part)]);
    }
    Commit record{};
    record.round = round;
    record.generation = generation;
    record.batch = batch;
    record.rows = 1;
    record.batches = batches;
    record.compute_us = compute_us;
    record.grad_scale = std::bit_cast<std::uint64_t>(1.0);
    record.is_finite = is_finite ? 1 : 0;
    std::memcpy(window->mine().data() + board.report(worker) + offsetof(Report, commit) +
                    (number % slots_per_worker) * sizeof(Commit),
                &record, sizeof record);
    put(worker, offsetof(Report, commits), number);
  }
  /// Polls until worker 0 has been silent for too long, worker 1 living on.
  void lose_worker_0() {
    const Deadline limit("the loss of worker 0", 10);
    while (book.is_live(0) && !limit.is_over()) {
      beat(1);
      coordinator.poll();
    }
    ASSERT_FALSE(book.is_live(0));
  }
};

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
  t.coordinator.end();
  EXPECT_EQ(t.order(1, offsetof(Order, kind)), static_cast<std::uint64_t>(TaskKind::leave));
  EXPECT_EQ(t.order(1, offsetof(Order, number)), 2u);
  EXPECT_EQ(t.order(1, offsetof(Order, first)), 1u);
  EXPECT_EQ(t.order(1, offsetof(Order, last)), 2u);
  EXPECT_EQ(t.window->get_word(0, t.board.ending()), static_cast<std::uint64_t>(Ending::clean));
}

TEST(Coordinator, WithoutWorkersThereIsNoRun) {
  Table t;
  const Deadline limit("the loss of all workers", 10);
  try {
    while (!limit.is_over()) t.coordinator.poll();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::comm);
    EXPECT_NE(std::string(error.what()).find("lost the last worker"), std::string::npos) << error.what();
  }
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
