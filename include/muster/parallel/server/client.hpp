// A worker's side of the parameter servers: asks for work, pulls versions, pushes gradients and commits them, and shows
// that it lives. The words it exchanges: src/parallel/server/board.hpp. Used by the worker's one thread.
//
//   next_task()  ->  pull()  ->  (forward, backward; beat() between ops)  ->  push() ...; commit()  ->  ...
//
// A worker that was declared gone while it was silent (paused, cut off) finds a new generation at its next look: what
// it was doing is void, it takes over the generation and asks for work like anybody else. In lock-step the same holds
// for all whose round was given up because one of them is gone.
#pragma once

#include <muster/comm/window.hpp>
#include <muster/parallel/server/roles.hpp>
#include <muster/parallel/shards.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace muster::parallel {

struct Task {
  /// train: batches, each alone; share: a share of one batch, in lock-step with the others.
  enum class Kind : std::uint8_t { train, share, evaluate, leave };
  Kind kind = Kind::leave;
  Range batches;             ///< train, share
  std::int64_t version = 0;  ///< evaluate: of the snapshot; share: of the weights to compute at
  int replicas = 1, replica = 0;
};

/// Thrown in the middle of a task that is void: this worker was declared gone, or another one and with it the round, or
/// the run is over. What was computed is thrown away; next_task() goes on.
struct VoidTask : std::exception {
  const char* what() const noexcept override { return "the task is void"; }
};

/// What goes with a gradient, or with a change of the weights.
struct CommitFacts {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t loss_units = 0;
  std::int64_t correct = 0, top_k_correct = 0;
  double grad_scale = 1;
  double compute_s = 0;
  bool is_finite = true;
  std::array<std::uint64_t, 3> index_sums{};
  std::int64_t batches = 1;  ///< from `batch` on
  bool is_fresh = false;     ///< a change that the worker's own optimizer has made from an empty state
};

struct ClientOptions {
  double server_deadline_s = 300;  ///< the coordinator silent for longer: Error(comm)
  double beat_interval_s = 0.05;
};

/// What a push in bfloat16 makes of a gradient.
void round_as_pushed(std::span<float> gradient);

class ServerClient {
 public:
  /// worker: this one. is_stop_requested: polled in every wait and with every beat; reported to the coordinator.
  ServerClient(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes, int worker,
               std::function<bool()> is_stop_requested, const ClientOptions& options);
  ~ServerClient();
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  /// Asks for work and waits for it. Throws Error(comm) when the coordinator is silent.
  Task next_task();
  /// Copies the newest complete version of every shard, where it changed since the last pull, into the whole model
  /// (Shards::parameters and Shards::running elements; the same memory every time); waits for version `at_least`.
  /// Returns the oldest of the versions. Throws Error(comm) when the servers leave no time to copy a whole one,
  /// VoidTask.
  std::int64_t pull(std::span<float> parameters, std::span<float> running, std::int64_t at_least);
  /// Copies the snapshot instead; the next pull copies everything.
  void pull_snapshot(std::span<float> parameters, std::span<float> running);
  /// The next pull copies everything, into other memory.
  void forget();

  /// Starts copying a piece of the gradient, or of the new running values (elements behind the parameters), into this
  /// worker's slots: subtree `part` of its share. `values` stay as they are until commit(). The first push of a commit
  /// waits for the slots. Throws VoidTask. With WindowSizes::is_bf16 gradients are rounded to nearest even on the way.
  void push(int part, const Range& elements, std::span<const float> values);
  /// The same with the weights that the gradient was computed at, all of them: the servers compensate the delay.
  void push_pulled(std::span<const float> weights);
  /// Completes and announces what was pushed. Throws VoidTask.
  void commit(const CommitFacts& facts);
  /// Shares of a round: sends this worker's rows of a sum of statistics and receives everybody's, in the order of the
  /// shares. sizes: elements per share; all has their sum. Throws VoidTask.
  void exchange_statistics(std::span<const double> mine, std::span<const std::size_t> sizes, std::span<double> all);
  /// Whether the last commit was accepted; waits until that is decided. True before the first. Throws VoidTask.
  bool was_accepted();
  /// The result of an evaluate task.
  void report_result(const CommitFacts& facts);
  /// Shows that this worker lives, from time to time; cheap enough to call between ops. Looks at nothing.
  void beat();
  /// Whether the run is ending: then the rest of a lease, and of an evaluation, is to be left. Looks from time to time.
  bool is_run_stopping();
  /// After a leave task: whether all ranks are still there, so that a collective end is possible.
  bool ends_clean();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::parallel
