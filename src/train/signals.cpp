// The handlers only set a flag: nothing else is safe in one.
#include <muster/train/signals.hpp>

#include <unistd.h>
#include <csignal>
#include <initializer_list>

namespace muster::train {
namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int signal) {
  if (requested != 0) _exit(128 + signal);
  requested = signal;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write with a message, like a full disk
}

bool is_stop_requested() { return requested != 0; }

const char* stop_signal_name() {
  switch (requested) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    default:
      return "";
  }
}

void clear_stop_request() { requested = 0; }

}  // namespace muster::train
