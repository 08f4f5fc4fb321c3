// A parameter server: keeps one shard, applies the commits of the log to it in order, and publishes versions that
// anybody may read while it goes on. The coordinator (server 0) writes the log, the others read it from there. All
// state that others see lies in the window (src/parallel/server/board.hpp). Used by the server's one thread.
#pragma once

#include <muster/comm/window.hpp>
#include <muster/optim/optimizer.hpp>
#include <muster/parallel/server/roles.hpp>
#include <muster/parallel/shards.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace muster::parallel {

/// How a run ends. Collectives (MPI's own end, too) are possible only while all ranks are there.
enum class Ending : std::uint64_t { none = 0, clean = 1, ranks_lost = 2 };

/// Versions of a shard that are kept at a time: a reader of one has until two more are published.
inline constexpr std::int64_t version_buffers = 4;

/// A worker's commit, by its number.
struct Contribution {
  int worker = 0;
  std::uint64_t commit = 0;
};

/// How the next version is made: from the gradients of whole batches or of shares of one batch, which are added along
/// the tree over the grains (parallel/data/grains.hpp), of which contributor i of n has [G i/n, G (i+1)/n).
struct Update {
  std::vector<Contribution> from;  ///< in the order of their shares
  std::int64_t grains = 1;
  double grad_scale = 1;
  double lr = 0;
  bool is_summed = false;         ///< by the log's last entry
  double delay_compensation = 0;  ///< strength, where the one gradient is late and its weights came with it; 0: none
};

class ShardServer {
 public:
  /// window: at least window_bytes() long, on the servers' ranks. server: this one. Owns neither window nor optimizer.
  ShardServer(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes, int server,
              const optim::Optimizer& optimizer, const std::vector<optim::ParamRun>& runs, int threads);
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  static std::size_t window_bytes(const Roles& roles, const Shards& shards, int server, const WindowSizes& sizes);

  /// Version `version`: the shard's elements of the weights and running values, and of each slot of the optimizer.
  void start(std::int64_t version, std::span<const float> weights, const std::vector<std::span<const float>>& state);

  /// Makes the next version from the gradients in the workers' slots. The first one's running values replace the
  /// shard's: each commit's are a moving average that goes on from those of its base version, so along the chain of
  /// bases they stay what batch norm means by them, whatever was applied in between.
  void apply(const Update& update);
  /// Only adds the gradients up, and publishes the squares of the sum.
  void sum(const Update& update);
  std::int64_t version() const { return version_; }

  /// Keeps the present version, weights and state, in the snapshot area.
  void keep_snapshot();

  /// Not the coordinator: carries out the log's next entry; true if there was one.
  bool follow_log();
  /// Not the coordinator: shows that this server lives, and looks at how the run is. Throws Error(comm) when the
  /// coordinator has been silent for deadline_s.
  Ending look_up(double deadline_s);
  /// The coordinator: the followers are near enough that the log can take another entry.
  bool has_room() const;
  /// The coordinator: appends to the log, which must have room, and carries out.
  void log_update(const Update& update);
  std::uint64_t log_sum(const Update& update);  ///< number of the entry
  void log_snapshot();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::int64_t version_ = 0;
};

}  // namespace muster::parallel
