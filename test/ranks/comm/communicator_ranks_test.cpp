// Collectives, messages, groups and shared memory, at all sizes that take a path of their own.
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"

#include <muster/base/error.hpp>

#include <numeric>

MUSTER_RANKS(Communicator, 1, 2, 3, 4);

namespace muster::comm {
namespace {

const std::vector<std::size_t> sizes{0, 1, 7, 1000, 300'001};

/// What rank r holds at index i: exact in double, no two alike.
std::int64_t value(int rank, std::size_t i) { return static_cast<std::int64_t>(i) * 16 + rank + 1; }

template <class T>
std::vector<T> values(int rank, std::size_t n) {
  std::vector<T> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<T>(value(rank, i));
  return all;
}

template <class T>
void check_reductions(Communicator& group) {
  const auto size = static_cast<std::int64_t>(group.size());
  for (std::size_t n : sizes) {
    auto sum = values<T>(group.rank(), n);
    auto least = sum;
    auto most = sum;
    group.all_reduce(std::span<T>(sum), Reduction::sum, "sum");
    group.all_reduce(std::span<T>(least), Reduction::min, "min");
    group.all_reduce(std::span<T>(most), Reduction::max, "max");
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t base = static_cast<std::int64_t>(i) * 16;
      ASSERT_EQ(sum[i], static_cast<T>(size * base + size * (size + 1) / 2)) << n << " values, index " << i;
      ASSERT_EQ(least[i], static_cast<T>(base + 1));
      ASSERT_EQ(most[i], static_cast<T>(base + size));
    }
  }
}

TEST(Communicator, Reduces) {
  const auto group = test::world();
  check_reductions<double>(*group);
  check_reductions<std::int64_t>(*group);
}

void check_broadcast_and_gather(Communicator& group) {
  for (std::size_t n : sizes) {
    for (int root = 0; root < group.size(); ++root) {
      auto sent = values<std::int64_t>(group.rank(), n);
      group.broadcast(bytes_of(std::span(sent)), root, "broadcast");
      ASSERT_EQ(sent, values<std::int64_t>(root, n));
    }
    const auto mine = values<std::int64_t>(group.rank(), n);
    std::vector<std::int64_t> all(n * static_cast<std::size_t>(group.size()), -1);
    group.all_gather(bytes_of(std::span<const std::int64_t>(mine)), bytes_of(std::span(all)), "gather");
    for (int r = 0; r < group.size(); ++r)
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<std::size_t>(r) * n + i], value(r, i));
  }
}

TEST(Communicator, BroadcastsAndGathers) { check_broadcast_and_gather(*test::world()); }

TEST(Communicator, GathersTextOfAnyLength) {
  const auto group = test::world();
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank % 3 * 1000), static_cast<char>('a' + rank));
  };
  const auto all = group->all_gather_text(text_of(group->rank()), "text");
  ASSERT_EQ(all.size(), static_cast<std::size_t>(group->size()));
  for (int r = 0; r < group->size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r));
}

/// Every rank sends to every other one and receives from it.
void check_messages(Communicator& group) {
  for (std::size_t n : sizes) {
    std::vector<std::vector<std::int64_t>> outgoing;
    std::vector<std::vector<std::int64_t>> incoming(static_cast<std::size_t>(group.size()),
                                                    std::vector<std::int64_t>(n, -1));
    std::vector<RequestPtr> requests;
    std::vector<int> peers;
    for (int r = 0; r < group.size(); ++r) outgoing.push_back(values<std::int64_t>(group.rank() * 4 + r, n));
    for (int r = 0; r < group.size(); ++r) {
      if (r == group.rank()) continue;
      requests.push_back(group.receive(bytes_of(std::span(incoming[static_cast<std::size_t>(r)])), r, 3));
      requests.push_back(
          group.send(bytes_of(std::span<const std::int64_t>(outgoing[static_cast<std::size_t>(r)])), r, 3));
      peers.insert(peers.end(), {r, r});
    }
    group.wait_all(requests, peers, "messages");
    for (int r = 0; r < group.size(); ++r)
      if (r != group.rank()) {
        ASSERT_EQ(incoming[static_cast<std::size_t>(r)], values<std::int64_t>(r * 4 + group.rank(), n));
      }
  }
}

TEST(Communicator, ExchangesMessages) { check_messages(*test::world()); }

TEST(Communicator, CutsWhatIsTooLongForOneCall) {
  const test::ScopedVariable pieces("MUSTER_MPI_PIECE_BYTES", "4096");
  const auto group = test::world();
  check_reductions<double>(*group);
  check_broadcast_and_gather(*group);
  check_messages(*group);
}

TEST(Communicator, Splits) {
  const auto group = test::world();
  const bool is_odd = group->rank() % 2 == 1;
  const auto parity = group->split(is_odd ? 1 : 0, -group->rank(), "parity");  // reversed order
  EXPECT_EQ(parity->name(), "parity");
  EXPECT_EQ(parity->size(), is_odd ? group->size() / 2 : (group->size() + 1) / 2);
  for (int r = 0; r + 1 < parity->size(); ++r) EXPECT_GT(parity->world_rank(r).value, parity->world_rank(r + 1).value);
  EXPECT_EQ(parity->world_rank(parity->rank()).value, group->rank());
  std::int64_t sum = group->rank();
  parity->all_reduce(std::span(&sum, 1), Reduction::sum, "sum of one parity");
  std::int64_t expected = 0;
  for (int r = is_odd ? 1 : 0; r < group->size(); r += 2) expected += r;
  EXPECT_EQ(sum, expected);
  const auto first = group->split(group->rank() == 0 ? 0 : -1, 0, "first");
  EXPECT_EQ(first != nullptr, group->rank() == 0);
}

TEST(Communicator, SplitsNodesAndPretendedNodes) {
  const auto group = test::world();
  EXPECT_TRUE(group->is_one_node());
  EXPECT_EQ(group->split_node("node")->size(), group->size());
  const test::ScopedVariable fake("MUSTER_FAKE_NODE_SIZE", "2");
  EXPECT_EQ(group->is_one_node(), group->size() <= 2);
  const auto node = group->split_node("node");
  EXPECT_EQ(node->rank(), group->rank() % 2);
  EXPECT_EQ(node->world_rank(0).value, group->rank() / 2 * 2);
  EXPECT_TRUE(node->is_one_node());
}

TEST(Communicator, SharesMemory) {
  const auto group = test::world();
  for (std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{3'000'001}}) {
    const auto mine = bytes + static_cast<std::size_t>(group->rank());
    const auto segment = group->share(mine);
    const auto own = segment->part(group->rank());
    ASSERT_EQ(own.size(), mine);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own.data()) % 64, 0u);
    for (std::byte b : own) ASSERT_EQ(b, std::byte{0});
    group->barrier("zero seen");
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::byte>(value(group->rank(), i) % 251);
    group->barrier("written");
    for (int r = 0; r < group->size(); ++r) {
      const auto part = segment->part(r);
      ASSERT_EQ(part.size(), bytes + static_cast<std::size_t>(r));
      for (std::size_t i = 0; i < part.size(); ++i)
        ASSERT_EQ(part[i], static_cast<std::byte>(value(r, i) % 251)) << r << ' ' << i;
    }
    segment->close();
  }
}

TEST(Communicator, SharesMemoryOnOneNodeOnly) {
  const auto group = test::world();
  const test::ScopedVariable fake("MUSTER_FAKE_NODE_SIZE", "1");
  if (group->size() == 1) {
    group->share(64)->close();
    return;
  }
  try {
    group->share(64);
    ADD_FAILURE() << "shared between nodes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    EXPECT_NE(std::string(error.what()).find("multi_worker_mirrored"), std::string::npos) << error.what();
  }
}

TEST(Communicator, CountsTraffic) {
  const auto group = test::world();
  const auto part = group->split(0, group->rank(), "part");
  const Traffic before = group->traffic();
  EXPECT_EQ(part->traffic().messages, 0);
  const std::vector<std::byte> bytes(100);
  std::vector<std::byte> room(100);
  std::vector<RequestPtr> requests;
  std::vector<int> peers;
  for (int r = 0; r < group->size(); ++r) {
    if (r == group->rank()) continue;
    requests.push_back(part->send(bytes, r, 0));
    requests.push_back(part->receive(room, r, 0));
    peers.insert(peers.end(), {r, r});
  }
  part->wait_all(requests, peers, "messages");
  EXPECT_EQ(part->traffic().messages, group->size() - 1);
  EXPECT_EQ(part->traffic().bytes, 100 * (group->size() - 1));
  EXPECT_EQ(group->traffic().messages - before.messages, group->size() - 1) << "a group's traffic includes its parts'";
}

}  // namespace
}  // namespace muster::comm
