// Time for measuring and for deadlines: monotonic seconds.
#pragma once

#include <string>

namespace muster {

/// Seconds on the monotonic clock.
double now_s() noexcept;
/// Seconds since this process started (from the kernel's own start time, so dynamic linking counts).
double since_process_start_s();

class Stopwatch {
 public:
  Stopwatch() : start_(now_s()) {}
  double elapsed_s() const { return now_s() - start_; }
  void restart() { start_ = now_s(); }

 private:
  double start_;
};

/// A named point in time after which waiting must stop. Everything that waits takes one.
class Deadline {
 public:
  Deadline(std::string operation, double limit_s)
      : operation_(std::move(operation)), limit_s_(limit_s), end_(now_s() + limit_s) {}
  /// For one that is kept: takes another name without new memory.
  void restart(const std::string& operation, double limit_s) {
    operation_ = operation;
    limit_s_ = limit_s;
    end_ = now_s() + limit_s;
  }
  bool is_over() const { return now_s() > end_; }
  double elapsed_s() const { return now_s() - (end_ - limit_s_); }
  double limit_s() const { return limit_s_; }
  const std::string& operation() const { return operation_; }

 private:
  std::string operation_;
  double limit_s_;
  double end_;
};

}  // namespace muster
