#include "comm/mpi/blocking_guard.hpp"

#include <muster/base/error.hpp>
#include <muster/base/status_file.hpp>

#include <sys/time.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace muster::comm {
namespace {

// The limit is measured in slices: however long a process was paused, and the clock with it, when it goes on only one
// of them has passed.
constexpr int slices = 8;
constexpr double shortest_s = 1e-3, longest_s = 1e8;  // what a timer takes

char message[256];  // written before the alarm is armed, read by the handler, as is what follows
volatile std::sig_atomic_t slices_left = 0;

void count_slice(int) {
  slices_left = slices_left - 1;
  if (slices_left > 0) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, std::strlen(message));
  write_status_file(static_cast<int>(ExitCode::comm));
  ::_exit(static_cast<int>(ExitCode::comm));
}

void arm(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  timer.it_interval = timer.it_value;
  if (::setitimer(ITIMER_REAL, &timer, nullptr) != 0)
    fail(ExitCode::internal, "setitimer of {} s: {}", seconds, std::strerror(errno));
}

}  // namespace

BlockingGuard::BlockingGuard(const char* call, double limit_s) {
  std::snprintf(message, sizeof message,
                "muster: error: %s%s%s did not return within %g s: a rank of the job is missing or its network is not "
                "reachable\n",
                error_context().c_str(), error_context().empty() ? "" : ": ", call, limit_s);
  struct sigaction action {};
  action.sa_handler = count_slice;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  slices_left = slices;
  arm(std::clamp(limit_s / slices, shortest_s, longest_s));
}

BlockingGuard::~BlockingGuard() {
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::signal(SIGALRM, SIG_DFL);
}

}  // namespace muster::comm
