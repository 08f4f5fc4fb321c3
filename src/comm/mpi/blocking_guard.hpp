// A limit for the few MPI calls that cannot be made non-blocking (start, end, windows, splits): when one does not
// return in time, a message naming it is written and the process ends with ExitCode::comm. Uses SIGALRM; one at a time.
#pragma once

namespace muster::comm {

class BlockingGuard {
 public:
  /// call: a string literal.
  BlockingGuard(const char* call, double limit_s);
  BlockingGuard(const BlockingGuard&) = delete;
  BlockingGuard& operator=(const BlockingGuard&) = delete;
  ~BlockingGuard();
};

}  // namespace muster::comm
