// SIGTERM, SIGUSR1, SIGINT and SIGHUP (unless ignored, as by nohup) ask for a stop: the run saves and exits 75. A
// second one ends the process at once. They are taken by a thread that only sets a flag; every loop polls it.
#pragma once

#include <cstdint>
#include <string>

namespace muster::train {

/// Starts the thread and blocks the signals for all others (idempotent; before any other thread is made); also makes a
/// write beyond the file-size limit fail instead of killing the process.
void install_signal_handlers();
/// By a signal, or by wish_to_stop().
bool is_stop_requested();

/// Why this process should stop; where ranks have several reasons, the largest holds.
enum class StopReason : std::int64_t { none, another_rank, file, wall_time, signal };
/// Asks for a stop as a signal would; the largest reason is kept. From any thread.
void wish_to_stop(StopReason reason);
/// `signal` where one came, else what was wished.
StopReason stop_reason();
/// Forgets what was wished, not a signal.
void clear_stop_wish();
/// How the run was stopped, as the end of a sentence: the signal's name, "by the stop file", "before the wall time is
/// over".
std::string describe_stop(StopReason reason);
/// "SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP" or "".
const char* stop_signal_name();
/// For tests: forgets a request.
void clear_stop_request();

}  // namespace muster::train
