// The coordinator's book: every batch exactly once whatever workers do, staleness, leases by speed.
#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>
#include <muster/parallel/server/lease_book.hpp>

#include <gtest/gtest.h>

#include <map>

namespace muster::parallel {
namespace {

constexpr LeaseOptions free_running{0, true, 8};

TEST(LeaseBook, GrantsTheRowInOrder) {
  LeaseBook book({10, 13}, {}, 2, free_running);
  book.join(0);
  book.join(1);
  EXPECT_EQ(book.grant(0), (Range{10, 11}));
  EXPECT_EQ(book.grant(1), (Range{11, 12}));
  EXPECT_TRUE(book.holds(0, 10) && book.holds(1, 11));
  EXPECT_FALSE(book.holds(0, 11) || book.holds(1, 10));
  EXPECT_TRUE(book.commit(1, 11));
  EXPECT_EQ(book.first_open(), 10);
  EXPECT_EQ(book.committed_beyond(), std::vector<std::int64_t>{11});
  EXPECT_EQ(book.grant(1), (Range{12, 13}));
  EXPECT_TRUE(book.commit(0, 10));
  EXPECT_EQ(book.first_open(), 12);
  EXPECT_TRUE(book.committed_beyond().empty());
  EXPECT_EQ(book.grant(0), std::nullopt);
  EXPECT_FALSE(book.is_done());
  EXPECT_TRUE(book.commit(1, 12));
  EXPECT_TRUE(book.is_done());
  EXPECT_FALSE(book.has_lease(0) || book.has_lease(1));
}

TEST(LeaseBook, TakesBackWhatALostWorkerHeld) {
  LeaseBook book({0, 4}, {}, 2, free_running);
  book.join(0);
  book.join(1);
  book.set_seconds_per_batch(0, 1);
  book.set_seconds_per_batch(1, 3);
  EXPECT_EQ(book.grant(0), (Range{0, 3}));
  EXPECT_TRUE(book.commit(0, 1));
  book.lose(0);
  EXPECT_FALSE(book.commit(0, 0)) << "late work of a worker that is gone";
  EXPECT_EQ(book.live(), 1);
  EXPECT_EQ(book.grant(1), (Range{0, 1}));
  EXPECT_FALSE(book.commit(1, 2)) << "not held";
  EXPECT_TRUE(book.commit(1, 0));
  EXPECT_FALSE(book.commit(1, 0)) << "twice";
  EXPECT_EQ(book.grant(1), (Range{2, 3}));
  EXPECT_TRUE(book.commit(1, 2));
  EXPECT_EQ(book.grant(1), (Range{3, 4}));
  EXPECT_TRUE(book.commit(1, 3));
  EXPECT_TRUE(book.is_done());
}

TEST(LeaseBook, LeasesGrowWithSpeedUpToTheLongest) {
  LeaseBook book({0, 100}, {}, 3, {0, true, 5});
  for (int w : {0, 1, 2}) book.join(w);
  book.set_seconds_per_batch(0, 8);
  book.set_seconds_per_batch(1, 2);
  book.set_seconds_per_batch(2, 0.01);
  EXPECT_EQ(book.grant(0)->size(), 1);
  EXPECT_EQ(book.grant(1)->size(), 4);
  EXPECT_EQ(book.grant(2)->size(), 5);
}

/// A worker may be `staleness` leases ahead of the slowest, not more; one that is gone holds nobody up.
TEST(LeaseBook, StalenessHoldsTheFastOnesBack) {
  LeaseBook book({0, 100}, {}, 2, {2, false, 1});
  book.join(0);
  book.join(1);
  ASSERT_TRUE(book.grant(1));  // batch 0, and it does not come back for a while
  for (std::int64_t b = 1; b <= 3; ++b) {
    ASSERT_EQ(book.grant(0), (Range{b, b + 1}));
    ASSERT_TRUE(book.commit(0, b));
  }
  EXPECT_EQ(book.clock(0), 3);
  EXPECT_EQ(book.grant(0), std::nullopt);
  EXPECT_TRUE(book.commit(1, 0));
  EXPECT_EQ(book.grant(0), (Range{4, 5}));
  ASSERT_TRUE(book.commit(0, 4));
  EXPECT_EQ(book.grant(0), std::nullopt);
  book.lose(1);
  EXPECT_EQ(book.grant(0), (Range{5, 6}));
  ASSERT_TRUE(book.commit(0, 5));
  book.join(1);
  EXPECT_EQ(book.clock(1), 5) << "a worker that is back starts with the slowest";
}

TEST(LeaseBook, GoesOnFromAResume) {
  LeaseBook book({3, 8}, {5, 7}, 1, free_running);
  book.join(0);
  EXPECT_EQ(book.committed(), 2);
  EXPECT_EQ(book.first_open(), 3);
  EXPECT_EQ(book.grant(0), (Range{3, 4}));
  ASSERT_TRUE(book.commit(0, 3));
  book.set_seconds_per_batch(0, 1);
  EXPECT_EQ(book.grant(0), (Range{4, 5}));
  ASSERT_TRUE(book.commit(0, 4));
  EXPECT_EQ(book.first_open(), 6);
  EXPECT_EQ(book.committed_beyond(), std::vector<std::int64_t>{7});
  EXPECT_EQ(book.grant(0), (Range{6, 7}));
  ASSERT_TRUE(book.commit(0, 6));
  EXPECT_TRUE(book.is_done());
  EXPECT_EQ(book.first_open(), 8);
}

/// Any order of grants, commits, losses and returns: each batch is committed once, and the row always comes to its end.
TEST(LeaseBook, EveryBatchOnceInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random(seed, Purpose::test, 0, 0);
    std::uint64_t draw = 0;
    const auto below = [&](std::uint32_t n) { return static_cast<int>(random.below(draw++, n)); };
    const int workers = 1 + below(4);
    const std::int64_t batches = below(40);
    LeaseBook book({0, batches}, {}, workers, {below(3), below(2) == 0, 1 + below(5)});
    std::vector<std::vector<std::int64_t>> held(static_cast<std::size_t>(workers));
    std::map<std::int64_t, int> commits;
    for (int w = 0; w < workers; ++w) book.join(w);
    for (int turn = 0; turn < 20000 && !book.is_done(); ++turn) {
      const int w = below(static_cast<std::uint32_t>(workers));
      auto& mine = held[static_cast<std::size_t>(w)];
      if (!book.is_live(w)) {
        if (below(4) == 0) book.join(w);
      } else if (below(25) == 0) {
        book.lose(w);
        if (!mine.empty()) {
          EXPECT_FALSE(book.commit(w, mine.front()));
        }
        mine.clear();
      } else if (mine.empty()) {
        book.set_seconds_per_batch(w, 1 + below(9));
        if (const auto lease = book.grant(w))
          for (std::int64_t b = lease->begin; b < lease->end; ++b) mine.push_back(b);
      } else {
        ASSERT_TRUE(book.commit(w, mine.front()));
        ++commits[mine.front()];
        mine.erase(mine.begin());
      }
    }
    ASSERT_TRUE(book.is_done()) << "seed " << seed;
    ASSERT_EQ(static_cast<std::int64_t>(commits.size()), batches);
    for (const auto& [batch, count] : commits) ASSERT_EQ(count, 1) << "batch " << batch;
    EXPECT_EQ(book.first_open(), batches);
  }
}

/// In lock-step nobody's clock gets ahead, so after it every worker may take a lease, whatever the staleness.
TEST(LeaseBook, ABatchOfAllIsCommittedOrComesBack) {
  LeaseBook book({0, 4}, {1}, 2, {0, false, 1});
  book.join(0);
  book.join(1);
  EXPECT_EQ(book.grant_to_all(), 0);
  book.return_of_all();
  EXPECT_EQ(book.grant_to_all(), 0) << "the front of the row again";
  book.commit_of_all();
  EXPECT_EQ(book.grant_to_all(), 2) << "1 was done before";
  book.commit_of_all();
  EXPECT_EQ(book.committed(), 3);
  EXPECT_EQ(book.first_open(), 3);
  EXPECT_EQ(book.clock(0), 2);
  EXPECT_EQ(book.clock(1), 2);
  EXPECT_EQ(book.grant(1), (Range{3, 4}));
  EXPECT_EQ(book.grant_to_all(), std::nullopt) << "nothing is left";
}

/// A worker twice as fast as the slowest takes two pushes of three batches; what comes back goes out as it lies.
TEST(LeaseBook, LeasesAreOfWholePushes) {
  LeaseBook book({0, 20}, {}, 2, {0, true, 8, 3});
  book.join(0);
  book.join(1);
  EXPECT_EQ(book.grant(0), (Range{0, 3}));
  EXPECT_EQ(book.grant(1), (Range{3, 6}));
  for (std::int64_t batch = 0; batch < 3; ++batch) EXPECT_TRUE(book.commit(0, batch));
  book.set_seconds_per_batch(0, 1);
  book.set_seconds_per_batch(1, 2);
  EXPECT_EQ(book.grant(0), (Range{6, 12}));
  EXPECT_EQ(book.clock(0), 1);
  EXPECT_TRUE(book.commit(1, 3));
  book.lose(1);
  EXPECT_FALSE(book.holds(0, {6, 13}));
  EXPECT_TRUE(book.holds(0, {6, 12}));
  book.join(1);
  EXPECT_EQ(book.grant(1), (Range{4, 6}));
  EXPECT_EQ(book.applied(), 4);
}

}  // namespace
}  // namespace muster::parallel
