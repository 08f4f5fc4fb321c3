// How a server passes the time when there is nothing to do: it leaves the core to the workers.
#pragma once

#include <sched.h>
#include <time.h>

namespace muster::train {

class IdlePause {
 public:
  void reset() { rounds_ = 0; }
  void take() {
    if (++rounds_ < 100) {
      ::sched_yield();
      return;
    }
    const timespec nap{0, 50'000};
    ::nanosleep(&nap, nullptr);
  }

 private:
  int rounds_ = 0;
};

}  // namespace muster::train
