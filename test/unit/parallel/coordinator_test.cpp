// The coordinator against words written by hand in its window, as workers would write them at the worst moments. One
// process, one server, deterministic.
#include "parallel/server/board.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace muster::parallel {
namespace {

constexpr double deadline_s = 0.05;
constexpr std::int64_t elements = 16;

struct Table {
  std::unique_ptr<comm::Session> session = comm::start_session({});
  Roles roles{1, 2, 0};
  std::vector<optim::ParamRun> runs{{"w", {0, elements}, true}};
  Shards shards = cut_shards(elements, 0, 1, false, runs);
  Board board{roles, shards, 0, 0};
  std::unique_ptr<comm::Window> window = session->world().window(board.bytes(), comm::WindowKind::shared);
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
  ShardServer server{*window, roles, shards, 0, *optimizer, runs, 1};
  LeaseBook book{{0, 4}, {}, 2, {0, true, 1}};
  Coordinator coordinator{*window, roles, shards, 0, server, book, [](std::int64_t) { return 1.0; }, {deadline_s, {}}};
  std::array<std::uint64_t, 2> beats{};

  Table() { server.start(0, std::vector<float>(elements), {}); }

  void put(int worker, std::size_t field, std::uint64_t value) {
    window->put_word(value, 0, board.report(worker) + field);
  }
  std::uint64_t order(int worker, std::size_t field) { return window->get_word(0, board.order(worker) + field); }
  void beat(int worker) { put(worker, offsetof(Report, beat), ++beats[static_cast<std::size_t>(worker)]); }
  void ask(int worker, std::uint64_t number) { put(worker, offsetof(Report, wants), number); }
  void adopt(int worker, std::uint64_t generation) { put(worker, offsetof(Report, generation), generation); }
  /// Writes the commit's gradient (all ones), its record and its word.
  void commit(int worker, std::uint64_t number, std::uint64_t generation, std::uint64_t batch, bool is_finite = true) {
    auto* gradient = reinterpret_cast<float*>(window->mine().data() + board.slot(worker, number));
    std::fill_n(gradient, elements, 1.0f);
    Commit record{};
    record.generation = generation;
    record.batch = batch;
    record.rows = 1;
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

}  // namespace
}  // namespace muster::parallel
