// A call that does not return ends the process; a pause of the process is no such call.
#include "comm/mpi/blocking_guard.hpp"

#include <muster/base/error.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace muster::comm {
namespace {

constexpr unsigned moment_us = 10'000;

void pass(int moments) {
  for (int i = 0; i < moments; ++i) ::usleep(moment_us);
}

TEST(BlockingGuard, EndsACallThatDoesNotReturn) {
  const auto block = [] {
    const BlockingGuard guard("a call", 0.2);
    pass(1000);
    ::_exit(0);
  };
  EXPECT_EXIT(block(), testing::ExitedWithCode(static_cast<int>(ExitCode::comm)), "a call did not return within 0.2 s");
}

TEST(BlockingGuard, TakesAnyLimit) {
  const BlockingGuard guard("a call", 1e300);
  pass(1);
}

/// Stopped for longer than the limit, in the middle of a call that then returns.
TEST(BlockingGuard, DoesNotTakeAPauseForABlockedCall) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const BlockingGuard guard("a call", 2);
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    pass(20);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  pass(300);
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace muster::comm
