// A worker's side of the parameter servers: asks for work, pulls versions, pushes gradients and commits them, and shows
// that it lives. The words it exchanges: src/parallel/server/board.hpp. Used by the worker's one thread.
//
//   next_task()  ->  pull()  ->  (forward, backward; beat() between ops)  ->  push(); commit()  ->  ...
//
// A worker that was declared gone while it was silent (paused, cut off) finds a new generation at its next look: what
// it was doing is void, it takes over the generation and asks for work like anybody else.
#pragma once

#include <muster/comm/window.hpp>
#include <muster/parallel/server/shards.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace muster::parallel {

struct Task {
  enum class Kind : std::uint8_t { train, evaluate, leave };
  Kind kind = Kind::leave;
  Range batches;             ///< train
  std::int64_t version = 0;  ///< evaluate: of the snapshot
};

/// What goes with a gradient.
struct CommitFacts {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t loss_units = 0;
  std::int64_t correct = 0, top_k_correct = 0;
  double grad_scale = 1;
  double compute_s = 0;
  bool is_finite = true;
  std::array<std::uint64_t, 3> index_sums{};
};

struct ClientOptions {
  double server_deadline_s = 300;  ///< the coordinator silent for longer: Error(comm)
  double beat_interval_s = 0.05;
};

class ServerClient {
 public:
  /// worker: this one. is_stop_requested: polled in every wait and with every beat; reported to the coordinator.
  ServerClient(comm::Window& window, const Roles& roles, const Shards& shards, int optimizer_slots, int worker,
               std::function<bool()> is_stop_requested, const ClientOptions& options);
  ~ServerClient();
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  /// Asks for work and waits for it. Throws Error(comm) when the coordinator is silent.
  Task next_task();
  /// Copies the newest complete version of every shard, where it changed since the last pull, into the whole model
  /// (Shards::parameters and Shards::running elements; the same memory every time). Returns the oldest of the versions.
  /// Throws Error(comm) when the servers leave no time to copy a whole one.
  std::int64_t pull(std::span<float> parameters, std::span<float> running);
  /// Copies the snapshot instead; the next pull copies everything.
  void pull_snapshot(std::span<float> parameters, std::span<float> running);
  /// Copies the gradient and the new running values into this worker's slots. False: the work is void, since
  /// this worker was declared gone or the run is over.
  bool push(std::span<const float> gradient, std::span<const float> running);
  /// Announces what was pushed.
  void commit(const CommitFacts& facts);
  /// The result of an evaluate task.
  void report_result(const CommitFacts& facts);
  /// Shows that this worker lives, from time to time; cheap enough to call between ops. Looks at nothing.
  void beat();
  /// After a leave task: whether all ranks are still there, so that a collective end is possible.
  bool ends_clean();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::parallel
