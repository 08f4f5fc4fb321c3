// What one-sided operations do on this machine before a run depends on them: measured at the start, on a window of the
// kind in use, between the target and the rank that is farthest from it.
#pragma once

#include <muster/comm/communicator.hpp>

#include <string>

namespace muster::comm {

struct WindowFacts {
  int prober = 0;  ///< the rank that measured
  double word_s = 0;
  double get_bytes_per_s = 0, put_bytes_per_s = 0;
  bool delivers = true;          ///< what was put is what is got
  bool progresses_alone = true;  ///< answered also while the target is in no call of the library

  /// "rank 3 on h2 reads a word in 41 us, gets 1.1 GB/s, puts 1.0 GB/s; answered by polling"
  std::string describe(const Communicator& group) const;
};

/// Collective over the group. Takes milliseconds. Throws Error(launch) on every rank where values do not arrive as they
/// were sent. Where operations do not complete within limit_s, although the target polls, the prober's process ends
/// with that code and a message: it is inside a call that does not return.
WindowFacts probe_window(Communicator& group, WindowKind kind, int target, int prober, double limit_s);

/// The prober's half; the target must be serving. Does not return from a window that does not progress.
WindowFacts measure_window(Window& window, int target, double limit_s);

/// Bytes that the target's part of the window must have.
std::size_t probe_window_bytes();

}  // namespace muster::comm
