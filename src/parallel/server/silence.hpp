// For how long somebody has been silent, as seen by one who looks at a word that grows while the other lives. Who was
// held up himself between two looks (paused, or inside a call over a link that was cut) must not take that time for the
// other's silence: a gap counts for a quarter of the deadline at most, so it takes several looks to declare anybody
// gone.
#pragma once

#include <muster/base/clock.hpp>

#include <algorithm>
#include <cstdint>

namespace muster::parallel {

class Silence {
 public:
  /// A look at the word. now_s: of base/clock. Returns the seconds of silence so far.
  double look(std::uint64_t word, double now_s, double deadline_s) {
    const double gap_s = last_look_s_ > 0 ? std::min(now_s - last_look_s_, deadline_s / 4) : 0;
    silent_s_ = word == word_ ? silent_s_ + gap_s : 0;
    word_ = word;
    last_look_s_ = now_s;
    return silent_s_;
  }

 private:
  std::uint64_t word_ = 0;
  double last_look_s_ = 0, silent_s_ = 0;
};

}  // namespace muster::parallel
