// Lock-step: every worker that is there computes a share of the same batch, at the same version, and one update is made
// of all shares, so the training goes as the synchronous strategies' does. A worker that goes in the middle voids the
// round; its batch is computed again by those who are left.
//
//   all ask  ->  start: batch, version, who has which share  ->  all commit  ->  complete: one update  ->  all ask ...
//                                                            ->  one is lost: void; the others ask again
//
// Used by the coordinator's one thread.
#pragma once

#include "parallel/server/desk.hpp"

#include <muster/parallel/server/coordinator.hpp>

#include <functional>
#include <map>
#include <optional>

namespace muster::parallel {

class Round {
 public:
  /// grains_of: leaves of the sum tree for n shares.
  Round(Desk& desk, LeaseBook& book, std::function<std::int64_t(int)> grains_of);

  bool is_running() const { return is_running_; }
  /// Starts the next where all workers that are there ask for work, and a batch is left. version: of the weights.
  void start_if_all_ask(std::int64_t version);
  /// True: the commit belongs to the round that runs, and is kept for its completion.
  bool take(int worker, std::uint64_t number, const Commit& commit);
  /// A worker is gone; the round is void unless all shares are there.
  void lose(int worker);
  bool is_complete() const { return is_running_ && commits_.size() == shares_.size(); }
  bool is_finite() const;
  /// Of a complete round: the update of its shares, all but the learning rate and what it is to be scaled by.
  Update update() const;
  /// Of a complete round: what it comes to; the round is over. version: the one its update has made.
  Applied finish(std::int64_t version);

 private:
  struct Kept {
    std::uint64_t number;
    Commit commit;
  };
  void end();

  Desk& desk_;
  LeaseBook& book_;
  std::function<std::int64_t(int)> grains_of_;
  std::uint64_t number_ = 0;
  bool is_running_ = false;
  std::int64_t batch_ = 0, version_ = 0;
  std::vector<int> shares_;      // the worker that has share i
  std::map<int, Kept> commits_;  // by worker
};

}  // namespace muster::parallel
