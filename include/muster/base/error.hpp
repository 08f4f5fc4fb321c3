// Errors of the whole program: one exception type that carries the exit code, and the funnel through which every
// failure of a vendor library goes. Two families (README, "Exit codes"): bad input says what was expected, what was
// found and how to mend it; a broken invariant (see check.hpp) prints its operands. main() turns an Error that leaves
// it into one message, a crash file per rank and the exit code.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

/// Process exit codes. Stable: scripts depend on them.
enum class ExitCode : int {
  done = 0,
  usage = 2,       ///< command line or config
  data = 3,        ///< datasets
  launch = 4,      ///< the job's environment does not match what was asked for
  device = 5,      ///< device failure or out of memory
  comm = 6,        ///< communication deadline passed or a rank was lost
  diverged = 7,    ///< NaN, Inf or the loss guard
  checkpoint = 8,  ///< a checkpoint cannot be written or read
  internal = 70,   ///< a broken invariant: a defect of muster itself
  requeue = 75,    ///< stopped by a signal or the wall time, state saved, please start again
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error(code, formatted message).
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// What the exception being handled means to the process: an Error's own code and message; memory that cannot be had is
/// a device failure; anything else is a defect. Call inside a catch block.
struct Failure {
  ExitCode code;
  std::string message;
};
Failure current_failure();

/// The one funnel for failed library calls: throws an Error whose message names the library, the expression, the
/// status with the library's own text, the source location, and the rank, host and step known to set_error_context.
[[noreturn]] void fail_library(ExitCode code, std::string_view library, std::string_view expression, long status,
                               std::string_view library_message,
                               std::source_location where = std::source_location::current());

/// What fail_library and crash files add to a message. Set once by the session; thread-safe to read afterwards.
void set_error_context(int rank, int size, std::string host);
/// The training step in progress, for messages; any thread may call it.
void set_error_step(long step);
/// "rank 2 of 4 on node7, step 120", or "" before a session exists.
std::string error_context();

}  // namespace muster
