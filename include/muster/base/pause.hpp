// How whoever polls passes the time: hot for some microseconds, then leaving the core to others (tests and small
// machines run more ranks than cores), then asleep.
#pragma once

#include <sched.h>
#include <time.h>

namespace muster {

inline void pass_time(double waited_s) {
  constexpr double spin_s = 20e-6;
  constexpr double yield_s = 5e-3;
  constexpr long sleep_ns = 50'000;
  if (waited_s < spin_s) {
    for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
  } else if (waited_s < yield_s) {
    ::sched_yield();
  } else {
    const timespec nap{0, sleep_ns};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace muster
