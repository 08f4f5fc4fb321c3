// Where everything lies in the servers' windows. Words have one writer each; what a word announces is written before
// it.
//
//   server s       published        newest complete version of the shard                    server -> everybody
//                  snapshotted      version held by the snapshot area                        server -> everybody
//                  followed         number of log entries it has carried out                server -> coordinator
//                  alive            grows while the server lives                            server -> coordinator
//                  applied[w]       last commit of worker w that is in the shard            server -> worker
//                  versions         `version_buffers` copies of the shard: version v in v % version_buffers
//                  snapshot         weights and optimizer state of one version
//                  squared          number of the log entry that `squares` belongs to       server -> coordinator
//                  squares          squared norms of the pieces of a summed gradient        server -> coordinator
//                  slots[w][2]      gradient of worker w's commits, even and odd: the       worker -> server
//                                   subtrees of its share, one after the other; bfloat16 in the first
//                                   half of each where WindowSizes says so, running values where they
//                                   would be with floats
//                  pulled[w][2]     weights that the commits were computed at, where the    worker -> server
//                                   delay is compensated; reused as slots are
//   coordinator    beat, ending     it lives; how the run ends                              server -> everybody
//   (server 0)     orders[w]        what worker w is to do                                  server -> worker
//                  reports[w]       that it lives, wants work, has committed                worker -> server
//                  bases[w][2]      versions of the shards that a commit was computed at    worker -> server
//                  member[w]        the round that worker w takes part in                   server -> worker
//                  calls, rows[w]   worker w's share of a sum of statistics, even and odd   worker -> other workers
//                  logged, log      the order in which commits are applied                  server 0 -> other servers
//
// Why a read is never torn: version v is overwritten only when v + version_buffers is being made, which begins after
// v + version_buffers - 1 is published. A reader that sees `published` at most v + version_buffers - 2 after its copy
// has a whole one. A slot is reused only after all servers have applied what was in it. An order's
// batches change only after the worker has asked for the next.
#pragma once

#include <muster/parallel/server/shard_server.hpp>

#include <cstddef>
#include <cstdint>

namespace muster::parallel {

inline constexpr std::size_t word_bytes = 8;
inline constexpr std::size_t line_bytes = 64;
inline constexpr int slots_per_worker = 2;

constexpr std::size_t round_to_line(std::size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

/// What a worker is told to do.
enum class TaskKind : std::uint64_t { wait = 0, train = 1, evaluate = 2, leave = 3, share = 4 };

/// Written by the coordinator, `number` last.
struct Order {
  std::uint64_t number;      ///< of orders to this worker
  std::uint64_t generation;  ///< the worker's life; commits of an earlier one are dropped
  std::uint64_t kind;
  std::uint64_t first, last;  ///< train, share: batches; evaluate: first = version of the snapshot
  std::uint64_t version;      ///< share: of the weights
  std::uint64_t round;        ///< share: number of the round ...
  std::uint64_t replicas, replica;
  std::uint64_t handled;        ///< last commit that was decided on ...
  std::uint64_t accepted;       ///< ... and last that was accepted
  std::uint64_t running_round;  ///< ... which is given up when this word has another value
  std::uint64_t is_stopping;    ///< the run ends: what is not begun is left
  std::uint64_t unused[3];
};
static_assert(sizeof(Order) == 2 * line_bytes);

/// What belongs to one commit; written by the worker into its report before the `commits` word.
struct Commit {
  std::uint64_t generation;
  std::uint64_t batch;
  std::uint64_t base;  ///< version the gradient was computed at: the oldest of its shards'
  std::uint64_t rows;
  std::uint64_t loss_units;  ///< as signed
  std::uint64_t correct, top_k_correct;
  std::uint64_t grad_scale;  ///< bits of a double: gradient clipping
  std::uint64_t compute_us;
  std::uint64_t is_finite;
  std::uint64_t index_sums[3];  ///< count, sum of (index + 1), sum of squares (train/audit)
  std::uint64_t round;          ///< of the share; 0: a whole batch of a lease
  std::uint64_t batches;        ///< from `batch` on
  std::uint64_t is_fresh;       ///< as of CommitFacts
};
static_assert(sizeof(Commit) == 2 * line_bytes);

/// A worker's words to the coordinator.
struct Report {
  std::uint64_t beat;     ///< grows while the worker lives
  std::uint64_t wants;    ///< number of orders it has asked for
  std::uint64_t commits;  ///< number of commits made, over all generations
  std::uint64_t generation;
  std::uint64_t wants_stop;  ///< a signal came
  std::uint64_t result_of;   ///< number of the evaluate order that `result` belongs to
  std::uint64_t has_left;    ///< it was told to leave, and does nothing more
  std::uint64_t unused[1];
  Commit commit[slots_per_worker];
  Commit result;
};
static_assert(sizeof(Report) == 7 * line_bytes);

/// What every server carries out, in this order: an update makes the next version, a snapshot keeps the present one, a
/// sum adds the shares of the update that follows and publishes the squares of the result, for clipping.
enum class LogKind : std::uint64_t { update = 1, snapshot = 2, sum = 3 };
/// Followed by one word per worker: the number of its commit that takes part, or 0; the commit's slot is number % 2.
struct LogEntry {
  std::uint64_t number;  ///< 1 for the first
  std::uint64_t kind;
  std::uint64_t grains;      ///< leaves of the sum tree
  std::uint64_t is_summed;   ///< a sum entry has added the shares
  std::uint64_t grad_scale;  ///< bits of a double
  std::uint64_t lr;          ///< bits of a double
  std::uint64_t delay;       ///< bits of a double: Update::delay_compensation
  std::uint64_t unused[1];
};
static_assert(sizeof(LogEntry) == line_bytes);

/// Offsets in the window of server `server`.
class Board {
 public:
  Board(const Roles& roles, const Shards& shards, int server, const WindowSizes& sizes);

  std::size_t bytes() const { return bytes_; }
  // every server
  static constexpr std::size_t published() { return 0; }
  static constexpr std::size_t snapshotted() { return line_bytes; }
  static constexpr std::size_t followed() { return 2 * line_bytes; }
  static constexpr std::size_t alive() { return 3 * line_bytes; }
  std::size_t applied(int worker) const { return applied_ + static_cast<std::size_t>(worker) * line_bytes; }
  std::size_t version(std::int64_t number) const {
    return versions_ + static_cast<std::size_t>(number % version_buffers) * shard_bytes_;
  }
  /// part 0: weights and running values; 1 ...: optimizer slots
  std::size_t snapshot(int part) const { return snapshot_ + static_cast<std::size_t>(part) * shard_bytes_; }
  std::size_t slot(int worker, std::uint64_t commit, int part) const {
    const std::size_t slot = static_cast<std::size_t>(worker) * slots_per_worker + commit % slots_per_worker;
    return slots_ + (slot * static_cast<std::size_t>(parts_) + static_cast<std::size_t>(part)) * shard_bytes_;
  }
  std::size_t pulled(int worker, std::uint64_t commit) const {
    return pulled_ + (static_cast<std::size_t>(worker) * slots_per_worker + commit % slots_per_worker) * shard_bytes_;
  }
  static constexpr std::size_t squared() { return 4 * line_bytes; }
  std::size_t squares() const { return squares_; }
  // the coordinator
  std::size_t beat() const { return coordinator_; }
  std::size_t ending() const { return coordinator_ + line_bytes; }
  std::size_t logged() const { return coordinator_ + 2 * line_bytes; }
  std::size_t order(int worker) const { return orders_ + static_cast<std::size_t>(worker) * sizeof(Order); }
  std::size_t report(int worker) const { return reports_ + static_cast<std::size_t>(worker) * sizeof(Report); }
  std::size_t bases(int worker, std::uint64_t commit) const {
    return bases_ + (static_cast<std::size_t>(worker) * slots_per_worker + commit % slots_per_worker) * bases_bytes_;
  }
  /// The round that worker takes part in.
  std::size_t member(int worker) const { return members_ + static_cast<std::size_t>(worker) * word_bytes; }
  std::size_t calls(int worker) const { return rows_ + static_cast<std::size_t>(worker) * rows_bytes_; }
  std::size_t rows(int worker, std::uint64_t call) const {
    return calls(worker) + line_bytes + call % 2 * ((rows_bytes_ - line_bytes) / 2);
  }
  std::size_t log_entry(std::uint64_t number) const {
    return log_ + static_cast<std::size_t>(number % static_cast<std::uint64_t>(log_entries_)) * entry_bytes_;
  }
  std::size_t entry_bytes() const { return entry_bytes_; }
  /// Entries the log holds before the oldest is overwritten.
  std::int64_t log_entries() const { return log_entries_; }

 private:
  std::size_t shard_bytes_, bases_bytes_, rows_bytes_, entry_bytes_;  // of one of each
  int parts_;
  std::int64_t log_entries_;
  std::size_t applied_, squares_, versions_, snapshot_, slots_, pulled_;
  std::size_t coordinator_ = 0, orders_ = 0, reports_ = 0, bases_ = 0, members_ = 0, rows_ = 0, log_ = 0;
  std::size_t bytes_;
};

}  // namespace muster::parallel
