// A thread of its own takes the signals; everywhere else they are blocked. No handler ever runs on a compute thread:
// the JIT matrix kernels of oneDNN point the stack register into the heap, where a signal frame would overwrite data.
#include <muster/train/signals.hpp>

#include <muster/base/check.hpp>

#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <thread>

namespace muster::train {
namespace {

std::atomic<int> requested = 0;
std::atomic<StopReason> wished = StopReason::none;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaddset(&set, signal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);  // nohup has it ignored: so it stays
  return set;
}

/// The first signal is a request; the second ends the process.
void take_signals() {
  const sigset_t set = stop_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (requested.exchange(signal) != 0) _exit(128 + signal);
  }
}

}  // namespace

void install_signal_handlers() {
  static const bool is_installed = [] {
    const sigset_t set = stop_signals();  // blocked before any other thread is made, so that all inherit it
    MUSTER_CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
    std::thread(take_signals).detach();
    std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write with a message, like a full disk
    std::signal(SIGPIPE, SIG_IGN);  // nobody reads the terminal's lines any more: no reason to stop training
    return true;
  }();
  static_cast<void>(is_installed);
}

bool is_stop_requested() { return requested != 0 || wished != StopReason::none; }

void wish_to_stop(StopReason reason) {
  StopReason before = wished;
  while (before < reason && !wished.compare_exchange_weak(before, reason)) {
  }
}

StopReason stop_reason() { return requested != 0 ? StopReason::signal : wished.load(); }

void clear_stop_wish() { wished = StopReason::none; }

std::string describe_stop(StopReason reason) {
  switch (reason) {
    case StopReason::file:
      return "by the stop file";
    case StopReason::wall_time:
      return "before the wall time is over";
    case StopReason::signal:
      if (requested != 0) return stop_signal_name();
      break;
    default:
      break;
  }
  return "on another rank's request";
}

const char* stop_signal_name() {
  switch (requested) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "";
  }
}

void clear_stop_request() {
  requested = 0;
  clear_stop_wish();
}

}  // namespace muster::train
