// One-sided memory of both kinds: copies of all sizes, words, order of data and word, parts of different length.
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"

#include <muster/base/error.hpp>
#include <muster/comm/window_probe.hpp>

#include <cstring>
#include <numeric>

MUSTER_RANKS(Window, 1, 2, 3, 4);

namespace muster::comm {
namespace {

std::byte value(int rank, std::size_t i) {
  return static_cast<std::byte>((i * 7 + static_cast<std::size_t>(rank) * 31 + 1) % 251);
}

std::vector<std::byte> values(int rank, std::size_t n) {
  std::vector<std::byte> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = value(rank, i);
  return all;
}

class Window : public testing::TestWithParam<WindowKind> {};

TEST_P(Window, StartsZeroedWithTheLengthAskedFor) {
  const auto group = test::world();
  const std::size_t mine = static_cast<std::size_t>(group->rank()) * 1000;
  const auto window = group->window(mine, GetParam());
  ASSERT_EQ(window->mine().size(), mine);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(window->mine().data()) % 64, 0u);
  for (std::byte b : window->mine()) ASSERT_EQ(b, std::byte{0});
  EXPECT_EQ(window->kind(), group->size() == 1 && GetParam() == WindowKind::general ? window->kind() : GetParam());
  group->barrier("looked");
  window->close();
}

TEST_P(Window, IsProbedFromAnyRank) {
  const auto group = test::world();
  for (int prober = 1; prober < group->size(); ++prober) {
    const WindowFacts facts = probe_window(*group, GetParam(), 0, prober, 20);
    EXPECT_EQ(facts.prober, prober);
    EXPECT_GT(facts.word_s, 0);
    EXPECT_LT(facts.word_s, 1);
    EXPECT_GT(facts.get_bytes_per_s, 1e6);
    EXPECT_GT(facts.put_bytes_per_s, 1e6);
    EXPECT_TRUE(facts.progresses_alone || GetParam() == WindowKind::general);
  }
}

/// Every rank writes its stretch of every other's part, then reads back what all have written.
TEST_P(Window, PutsAndGetsReachEveryRank) {
  const auto group = test::world();
  const auto ranks = static_cast<std::size_t>(group->size());
  for (std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{300'001}}) {
    const auto window = group->window(n * ranks + 13, GetParam());
    const auto own = values(group->rank(), n);
    for (int r = 0; r < group->size(); ++r) {
      window->put(own, r, n * static_cast<std::size_t>(group->rank()));
      window->flush(r);
    }
    group->barrier("all are written");
    window->progress();
    for (std::size_t w = 0; w < ranks; ++w)
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(window->mine()[w * n + i], value(static_cast<int>(w), i));
    const int next = (group->rank() + 1) % group->size();
    std::vector<std::byte> got(n * ranks);
    window->get(got, next, 0);
    window->flush(next);
    for (std::size_t w = 0; w < ranks; ++w)
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(got[w * n + i], value(static_cast<int>(w), i)) << n << " bytes";
    group->barrier("all are read");
    window->close();
  }
}

/// Data flushed before a word are there for who has seen the word. Rank 0 writes, the others wait for the words.
TEST_P(Window, AWordComesAfterTheData) {
  const auto group = test::world();
  constexpr std::size_t bytes = 1 << 16, word = bytes;
  constexpr std::uint64_t rounds = 50;
  const auto window = group->window(bytes + 8, GetParam());
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    if (group->rank() == 0) {
      const std::vector<std::byte> data(bytes, static_cast<std::byte>(round));
      for (int r = 0; r < group->size(); ++r) {
        window->put(data, r, 0);
        window->flush(r);
        window->put_word(round, r, word);
      }
    }
    const Deadline deadline("the word", 10);
    while (window->get_word(group->rank(), word) != round) {
      ASSERT_FALSE(deadline.is_over());
      window->progress();
    }
    for (std::size_t i = 0; i < bytes; i += 997) ASSERT_EQ(window->mine()[i], static_cast<std::byte>(round));
    group->barrier("round");
  }
  window->close();
}

TEST_P(Window, RefusesWhatLiesOutside) {
  const auto group = test::world();
  const auto window = group->window(64, GetParam());
  std::vector<std::byte> data(65);
  EXPECT_THROW(window->put(data, 0, 0), Error);
  EXPECT_THROW(window->get(data, 0, 0), Error);
  EXPECT_THROW(window->put_word(1, 0, 64), Error);
  EXPECT_THROW(window->get_word(0, 4), Error);
  group->barrier("all refused");
  window->close();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Window, testing::Values(WindowKind::shared, WindowKind::general),
                         [](const auto& kind) { return kind.param == WindowKind::shared ? "shared" : "general"; });

}  // namespace
}  // namespace muster::comm
