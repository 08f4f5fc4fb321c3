// How whoever polls passes the time: hot for some microseconds, then leaving the core to others (tests and small
// machines run more ranks than cores), then asleep. A yield is cheap among ranks that poll, but where somebody computes
// on the same core it costs a whole time slice; once one has, naps are taken instead for a while: whoever wakes from a
// nap gets the core back at once.
#pragma once

#include <muster/base/clock.hpp>

#include <sched.h>
#include <time.h>

namespace muster {

inline void pass_time(double waited_s) {
  constexpr double spin_s = 20e-6;
  constexpr double yield_s = 5e-3;
  constexpr double time_slice_s = 0.3e-3;  // a yield this long gave the core to somebody who keeps it
  constexpr double for_a_while_s = 20e-3;
  constexpr long sleep_ns = 50'000;
  thread_local double naps_until_s = 0;
  if (waited_s < spin_s) {
    for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
    return;
  }
  const double before_s = now_s();
  if (waited_s < yield_s && before_s >= naps_until_s) {
    ::sched_yield();
    const double after_s = now_s();
    if (after_s - before_s > time_slice_s) naps_until_s = after_s + for_a_while_s;
  } else {
    const timespec nap{0, sleep_ns};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace muster
