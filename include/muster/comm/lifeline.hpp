// Noticing at once that a process has ended, also one on another host, also while this one is inside a call that waits
// for it: an idle TCP connection, which the kernel closes when the process at its other end is gone. A link that is cut
// says nothing, so a rank that cannot be reached for a while is not taken for dead.
//
// One thread per process answers at its port and watches. Owned by the strategy that needs it; the ranks' groups know
// nothing of it.
#pragma once

#include <muster/comm/communicator.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::comm {

class Lifeline {
 public:
  /// Collective. Every rank is tied to the ranks [0, watched) except itself. on_loss(rank): called on the thread when
  /// the process of a watched rank ended without farewell; not called after the destructor.
  Lifeline(Communicator& world, int watched, std::function<void(int)> on_loss);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// From here on the end of this process is no loss to anybody.
  void say_farewell();
  /// Watched ranks that this one could not be tied to, with the reason: "rank 0 on h1: Connection refused".
  const std::vector<std::string>& untied() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::comm
