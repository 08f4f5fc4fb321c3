// Which worker works on which batches: the coordinator's book. Pure: no ranks, no clock, no messages, so every rule is
// tested as it stands.
//
// The training is a row of batches 0 ... n-1. A worker holds a lease on a few of them at a time (more when it is
// faster), computes each and commits it; the commit decides, so a batch is applied exactly once whatever happens to
// workers. What a worker that is gone has not committed goes back to the front of the row.
//
// Staleness (stale synchronous parallel: Ho et al., "More effective distributed ML via a stale synchronous parallel
// parameter server", NIPS 2013): a worker's clock counts the leases it has finished; a worker whose clock is more than
// `staleness` ahead of the slowest live worker's waits for it. Since leases are cut to the workers' speeds, clocks of
// workers of different speed go evenly.
#pragma once

#include <muster/base/ids.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace muster::parallel {

struct LeaseOptions {
  std::int64_t staleness = 0;  ///< ignored when is_unbounded
  bool is_unbounded = false;
  std::int64_t longest_lease = 8;  ///< pushes
  std::int64_t batches_per_push = 1;
};

class LeaseBook {
 public:
  /// batches: those of the run; done: batches before or beyond batches.begin that a resumed run has applied already.
  LeaseBook(Range batches, const std::vector<std::int64_t>& done, int workers, const LeaseOptions& options);

  /// A worker takes part from now on, at the clock of the slowest.
  void join(int worker);
  /// What it holds goes back; it takes no part until it joins again.
  void lose(int worker);
  bool is_live(int worker) const { return workers_[static_cast<std::size_t>(worker)].is_live; }
  int live() const;
  bool holds(int worker, std::int64_t batch) const;
  bool holds(int worker, const Range& batches) const;
  bool has_lease(int worker) const { return !workers_[static_cast<std::size_t>(worker)].held.empty(); }

  /// The next batches for a live worker that holds none. Empty: it has to wait (for slower ones, or nothing is left).
  std::optional<Range> grant(int worker);
  /// True: the worker holds this batch and it is applied now. False: somebody else has it or had it; drop the work.
  bool commit(int worker, std::int64_t batch);

  /// Lock-step: the next batch, for all live workers together; nobody gets ahead. At most one at a time. Empty: nothing
  /// is left.
  std::optional<std::int64_t> grant_to_all();
  /// The batch of all is applied now.
  void commit_of_all();
  /// It goes back to the front of the row.
  void return_of_all();

  /// How long the worker's batches take, for the length of its next leases.
  void set_seconds_per_batch(int worker, double seconds);

  std::int64_t committed() const { return committed_; }
  /// Batches of the whole run that are applied, those before batches.begin included.
  std::int64_t applied() const { return batches_.begin + committed_; }
  std::int64_t total() const { return batches_.size(); }
  bool is_done() const { return committed_ == batches_.size(); }
  /// Everything before this batch is committed ...
  std::int64_t first_open() const;
  /// ... and of those after it, these.
  std::vector<std::int64_t> committed_beyond() const;
  std::int64_t clock(int worker) const { return workers_[static_cast<std::size_t>(worker)].clock; }

 private:
  struct Worker {
    bool is_live = false;
    std::int64_t clock = 0;
    double seconds_per_batch = 0;    // 0: not known yet
    std::vector<std::int64_t> held;  // granted and not committed, ascending
  };
  std::int64_t lease_length(const Worker& worker) const;
  Range take(std::int64_t length);
  void close(std::int64_t batch);
  std::int64_t slowest_clock() const;

  Range batches_;
  LeaseOptions options_;
  std::vector<Worker> workers_;
  std::int64_t next_;                // never granted from here on
  std::set<std::int64_t> returned_;  // granted once, given back
  std::optional<std::int64_t> of_all_;
  std::set<std::int64_t> beyond_;  // committed, at or after open_
  std::int64_t open_;
  std::int64_t committed_ = 0;
};

}  // namespace muster::parallel
