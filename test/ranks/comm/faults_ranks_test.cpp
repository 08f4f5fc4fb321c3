// What the checks promise: late ranks are named, failing calls are reported. Lost ranks: test/fault and unit/comm.
#include "ranks/ranks.hpp"

#include <muster/base/error.hpp>

#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

MUSTER_RANKS(LateRank, 2, 3, 4);
MUSTER_RANKS(FailingCall, 1, 2, 3, 4);
MUSTER_RANKS(LostPeer, 1, 2);
MUSTER_RANKS(Launch, 1, 2, 4);

namespace muster::comm {
namespace {

constexpr double short_deadline_s = 0.3;
constexpr auto long_sleep = std::chrono::milliseconds(2500);  // deadline, answers, and some to spare

/// Short waits for the life of a scope.
class ShortDeadline {
 public:
  ShortDeadline() : before_(test::session().world().deadline_s()) { test::session().set_deadline(short_deadline_s); }
  ShortDeadline(const ShortDeadline&) = delete;
  ShortDeadline& operator=(const ShortDeadline&) = delete;
  ~ShortDeadline() { test::session().set_deadline(before_); }

 private:
  double before_;
};

/// The message of the Error(comm) that `action` throws.
template <class F>
std::string message_of(const F& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::comm) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(LateRank, IsNamedByACollective) {
  const auto group = test::world();
  const int late = group->size() - 1;
  group->barrier("start");
  if (group->rank() == late) {
    std::this_thread::sleep_for(long_sleep);
    group->barrier("the late barrier");  // the others have started it: it completes
    return;
  }
  const ShortDeadline deadline;
  const auto start = std::chrono::steady_clock::now();
  const std::string message = message_of([&] { group->barrier("the late barrier"); });
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(has(message, "'the late barrier'")) << message;
  EXPECT_TRUE(has(message, fmt::format("absent: rank {} on {}", late, group->host(late)))) << message;
  EXPECT_TRUE(has(message, "run.deadline_s")) << message;
  for (int r = 0; r < late; ++r)
    EXPECT_FALSE(has(message, fmt::format("rank {} on", r))) << "present rank named: " << message;
  EXPECT_LT(waited.count(), 2.2);
}

TEST(LateRank, IsNamedByAMessage) {
  const auto group = test::world();
  group->barrier("start");
  std::int64_t word = 7;
  if (group->rank() == 0) {
    std::this_thread::sleep_for(long_sleep);
    for (int r = 1; r < group->size(); ++r) {  // what they have posted is answered: nothing stays behind
      const RequestPtr sent = group->send(bytes_of(std::span<const std::int64_t>(&word, 1)), r, 1);
      group->wait_all(std::span(&sent, 1), std::vector<int>{r}, "answer");
    }
    return;
  }
  const RequestPtr request = group->receive(bytes_of(std::span(&word, 1)), 0, 1);
  {
    const ShortDeadline deadline;
    const std::string message =
        message_of([&] { group->wait_all(std::span(&request, 1), std::vector<int>{0}, "a message from 0"); });
    EXPECT_TRUE(has(message, "'a message from 0'")) << message;
    EXPECT_TRUE(has(message, "absent: rank 0 on")) << message;
  }
  group->wait_all(std::span(&request, 1), std::vector<int>{0}, "a message from 0");
}

TEST(LateRank, ThatWaitsElsewhereIsNamedWithItsOperation) {
  const auto group = test::world();
  const auto other = group->split(0, group->rank(), "other");
  group->barrier("start");
  if (group->rank() == 0) {
    const ShortDeadline deadline;
    const std::string message = message_of([&] { group->barrier("one thing"); });
    EXPECT_FALSE(has(message, "absent")) << message;
    EXPECT_TRUE(has(message, "elsewhere: rank 1 on")) << message;
    EXPECT_TRUE(has(message, "(waits in 'another thing')")) << message;
  }
  other->barrier("another thing");
  if (group->rank() != 0) group->barrier("one thing");
}

TEST(LateRank, IsNamedByAFlag) {
  const auto group = test::world();
  group->barrier("start");
  if (group->rank() != 0) {
    std::this_thread::sleep_for(long_sleep);
    return;
  }
  const Deadline deadline("a flag in shared memory", short_deadline_s);
  const std::string message = message_of([&] {
    for (;;) group->poll(deadline, std::vector<int>{1});
  });
  EXPECT_TRUE(has(message, "'a flag in shared memory'")) << message;
  EXPECT_TRUE(has(message, "absent: rank 1 on")) << message;
}

// As a message over TCP does when the other side is killed at that moment; no signal may end this process.
TEST(LostPeer, WhoseConnectionIsWrittenToEndsNobody) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  errno = 0;
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(FailingCall, IsReportedWithItsExpression) {
  const auto group = test::world();
  if (group->size() == 1 && test::session().launch().launcher == "none") {
    EXPECT_THROW((void)group->send({}, 0, -5), Error);
    return;
  }
  std::byte byte{};
  const std::string message = message_of([&] { (void)group->send(std::span(&byte, 1), 0, -5); });
  for (const char* part : {"MPI", "MPI_Isend", "tag", "communicator.cpp"})
    EXPECT_TRUE(has(message, part)) << part << ": " << message;
}

TEST(FailingCall, InAGroupMadeLaterIsReportedToo) {
  const auto part = test::world()->split(0, 0, "part");
  if (test::session().launch().launcher == "none") return;
  std::byte byte{};
  EXPECT_TRUE(has(message_of([&] { (void)part->receive(std::span(&byte, 1), 0, -5); }), "MPI_Irecv"));
}

TEST(FailingCall, OfOursIsABrokenInvariant) {
  const auto group = test::world();
  EXPECT_THROW((void)group->world_rank(group->size()), Error);
  std::vector<std::byte> mine(3);
  std::vector<std::byte> all(3 * static_cast<std::size_t>(group->size()) + 1);
  EXPECT_THROW(group->all_gather(mine, all, "sizes do not fit"), Error);
}

TEST(Launch, IsRefusedOnAllRanksAlike) {
  auto& session = test::session();
  const LaunchFacts& facts = session.launch();
  EXPECT_EQ(facts.world_size, session.world().size());
  EXPECT_EQ(facts.ranks_on_node, session.world().size());
  check_launch(session, 1000, true);
  try {
    check_launch(session, 1000, false);
    ADD_FAILURE() << "1000 threads were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    EXPECT_TRUE(has(error.what(), "device.threads")) << error.what();
  }
}

}  // namespace
}  // namespace muster::comm
