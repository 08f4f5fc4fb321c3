// SIGTERM, SIGUSR1, SIGINT and SIGHUP (unless ignored, as by nohup) ask for a stop: the run saves and exits 75. A
// second one ends the process at once. They are taken by a thread that only sets a flag; every loop polls it.
#pragma once

namespace muster::train {

/// Starts the thread and blocks the signals for all others (idempotent; before any other thread is made); also makes a
/// write beyond the file-size limit fail instead of killing the process.
void install_signal_handlers();
bool is_stop_requested();
/// "SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP" or "".
const char* stop_signal_name();
/// For tests: forgets a request.
void clear_stop_request();

}  // namespace muster::train
