// Whether another process of this host still lives, also as a zombie or under a reused number.
#include "comm/process.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace muster::comm {
namespace {

/// A child that sleeps until killed.
pid_t start_sleeper() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  return child;
}

/// Waits for the child's end without reaping it: it stays a zombie.
void await_end(pid_t child) {
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
}

TEST(Process, KnowsItself) {
  const ProcessIdentity self = identify_self();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_GT(self.start_ticks, 0);
  EXPECT_TRUE(is_alive(self));
}

/// As the child itself would report it: found by trying start times is not possible, so the child writes it to a pipe.
ProcessIdentity start_reporting_sleeper() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ProcessIdentity self = identify_self();
    if (::write(ends[1], &self, sizeof self) != sizeof self) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessIdentity identity;
  EXPECT_EQ(::read(ends[0], &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
  ::close(ends[0]);
  ::close(ends[1]);
  return identity;
}

TEST(Process, NoticesAKilledOne) {
  const ProcessIdentity child = start_reporting_sleeper();
  const auto pid = static_cast<pid_t>(child.pid);
  EXPECT_TRUE(is_alive(child));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  await_end(pid);
  EXPECT_FALSE(is_alive(child)) << "a zombie";
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(is_alive(child)) << "gone";
}

TEST(Process, TellsAReusedNumberFromTheProcess) {
  const pid_t child = start_sleeper();
  ProcessIdentity other = identify_self();
  other.pid = child;  // same number, another start time
  other.start_ticks -= 1;
  EXPECT_FALSE(is_alive(other));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Process, PresumesForeignOnesAlive) {
  ProcessIdentity elsewhere = identify_self();
  elsewhere.pid = 1 << 22;  // no process has this number
  EXPECT_FALSE(is_alive(elsewhere));
  elsewhere.boot_hash += 1;
  EXPECT_TRUE(is_alive(elsewhere));
}

TEST(Process, HasCores) {
  const cpu_set_t cores = allowed_cores();
  EXPECT_GE(CPU_COUNT(&cores), 1);
  EXPECT_LE(CPU_COUNT(&cores), online_cores());
  EXPECT_EQ(host_name().find('.'), std::string::npos);
}

}  // namespace
}  // namespace muster::comm
