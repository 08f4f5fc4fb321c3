#include "comm/mpi/blocking_guard.hpp"

#include <muster/base/error.hpp>
#include <muster/base/status_file.hpp>

#include <sys/time.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace muster::comm {
namespace {

char message[256];  // written before the alarm is armed, read by the handler

void end_process(int) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, std::strlen(message));
  write_status_file(static_cast<int>(ExitCode::comm));
  ::_exit(static_cast<int>(ExitCode::comm));
}

void arm(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

BlockingGuard::BlockingGuard(const char* call, double limit_s) {
  std::snprintf(message, sizeof message,
                "muster: error: %s%s%s did not return within %g s: a rank of the job is missing or its network is not "
                "reachable\n",
                error_context().c_str(), error_context().empty() ? "" : ": ", call, limit_s);
  struct sigaction action {};
  action.sa_handler = end_process;
  ::sigaction(SIGALRM, &action, nullptr);
  arm(limit_s);
}

BlockingGuard::~BlockingGuard() {
  arm(0);
  ::signal(SIGALRM, SIG_DFL);
}

}  // namespace muster::comm
