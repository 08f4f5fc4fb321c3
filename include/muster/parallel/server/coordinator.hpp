// Server 0's second job: which worker does what, in which order commits are applied, who is gone, who is back.
// Everything is decided here, by one rank, from words that the workers write into its window; nobody waits inside.
//
//   worker                                        coordinator
//   wants = k, beat                          ->   LeaseBook::grant -> order k (batches, generation)
//   gradient into its slot on all servers
//   commit record, then commits = n          ->   right generation and lease? log it, apply it : drop it; handled = n
//   silent for the heartbeat deadline        ->   generation + 1 (later commits are void), its lease goes back
//   takes over the new generation            ->   takes part again
//
// In lock-step there are rounds instead of leases: src/parallel/server/round.hpp.
// Used by the coordinator's one thread. Owns none of what it is given.
#pragma once

#include <muster/comm/window.hpp>
#include <muster/parallel/server/lease_book.hpp>
#include <muster/parallel/server/shard_server.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace muster::parallel {

/// One update, made of a worker's batch (or its change over several), or of the shares of all of them.
struct Applied {
  struct Share {
    int worker = 0;
    std::int64_t rows = 0;
  };
  std::vector<Share> shares;  ///< in the order of the sum
  std::int64_t batch = 0;
  std::int64_t batches = 1;         ///< from `batch` on
  std::int64_t steps = 0;           ///< batches of the run that are applied, these included
  bool is_fresh = false;            ///< as of CommitFacts
  std::int64_t base = 0;            ///< version it was computed at; its staleness is version - 1 - base
  std::vector<std::int64_t> bases;  ///< the same per shard of the model; base is the least
  std::int64_t version = 0;         ///< that it made
  std::int64_t grains = 1;          ///< leaves of the sum tree
  std::int64_t rows = 0;
  std::int64_t loss_units = 0;
  std::int64_t correct = 0, top_k_correct = 0;
  double compute_s = 0;   ///< what the worker took for it; the slowest's share
  bool is_finite = true;  ///< false: nothing was applied, the run is to end
  std::array<std::uint64_t, 3> index_sums{};
};

/// What an evaluation by one worker gave.
struct Evaluated {
  std::int64_t steps = 0;  ///< of the snapshot
  int worker = 0;
  std::int64_t rows = 0, loss_units = 0, correct = 0, top_k_correct = 0;
  bool is_finite = true;
};

/// A worker that was declared gone, or is back.
struct Attendance {
  int worker = 0;
  bool is_back = false;
  double silent_s = 0;
};

/// A version kept by all servers, and which batches are in it.
struct Snapshot {
  std::int64_t version = 0;
  std::int64_t first_open = 0;                 ///< every batch before this one ...
  std::vector<std::int64_t> committed_beyond;  ///< ... and these
  std::int64_t steps() const { return first_open + static_cast<std::int64_t>(committed_beyond.size()); }
};

struct CoordinatorOptions {
  double deadline_s = 10;  ///< a rank silent for longer is gone
  /// Whether the version is to be kept that takes the batches applied from the first number to the second; where the
  /// place is not free, a later one, but in lock-step all wait for it. Empty: none.
  std::function<bool(std::int64_t, std::int64_t)> is_snapshot_due;
  /// Updates before this version are made in lock-step: every worker computes a share of the batch.
  std::int64_t lock_step_until = 0;
  /// Lock-step: leaves of the sum tree for n shares; and the norm at which the sum is clipped (0: never).
  std::function<std::int64_t(int)> grains_of;
  double clip_norm = 0;
  /// Of updates from one worker's batch that others have overtaken: strength of the compensation; 0: none.
  double delay_compensation = 0;
};

using UpdateRate = std::function<double(std::int64_t version, std::int64_t staleness)>;

class Coordinator {
 public:
  /// lr: learning rate of the update that makes a version, as a function of the version before it and of the gradient's
  /// staleness.
  Coordinator(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes,
              ShardServer& server, LeaseBook& book, UpdateRate lr, const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// One look at every rank. What happened since the last call is in the lists below until the next.
  /// Throws Error(comm) when a server is gone.
  void poll();
  const std::vector<Applied>& applied() const;
  const std::vector<Attendance>& attendance() const;
  const std::optional<Evaluated>& evaluated() const;

  /// The version at the next poll() is to be kept by all servers in their snapshot areas; one at a time.
  void request_snapshot();
  /// The one kept on every server, once there.
  std::optional<Snapshot> snapshot();
  /// Copies a server's shard of the snapshot: part 0 the weights and running values, part 1 ... the optimizer's slots.
  void read_snapshot(int server, int part, std::span<float> shard);
  /// The snapshot is not needed any more.
  void release_snapshot();
  /// Some worker that asks for work evaluates the snapshot; see evaluated(). Given to another should it go.
  void evaluate_snapshot();

  /// A stop is under way: no more batches are granted, workers leave what they hold after the commit at hand, and an
  /// evaluation is cut short.
  void stop_granting();
  /// No worker is left that takes part, nor a spare to take a place. One that is silent may still come back.
  bool is_deserted() const;
  bool wants_stop() const;  ///< a worker was signalled
  bool is_idle() const;     ///< no worker computes or evaluates
  int live() const;         ///< spares included
  int lost() const;         ///< workers gone at the moment

  /// Tells everybody to leave and waits until every worker has answered or is gone; lost() is final then.
  void end();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::parallel
