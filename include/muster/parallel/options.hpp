// The `parallel:` section of the config.
#pragma once

#include <cstdint>
#include <string>

namespace muster::parallel {

/// Value of ParallelOptions::staleness.
inline constexpr std::int64_t unbounded = -1;

struct ParallelOptions {
  std::string strategy = "mirrored";  ///< mirrored | multi_worker_mirrored | parameter_server
  int data = 0;                       ///< grid.data: replicas; 0: auto = all ranks
  int pipeline = 1;                   ///< grid.pipeline: stages of a replica
  int tensor = 1;                     ///< grid.tensor
  std::int64_t grains = 0;     ///< bitwise mode: parts of the global batch (see grains.hpp); 0: auto = min(8, batch)
  std::string wire = "fp32";   ///< gradients on the wire: fp32 | bf16
  std::string lr_scaling;      ///< none | linear | sqrt; must be stated when more than one replica trains
  std::string shard = "none";  ///< what each replica keeps only its part of: none | optimizer
  std::int64_t bucket_kib = 1024;          ///< size of a gradient bucket
  std::string pipeline_schedule = "1f1b";  ///< gpipe | 1f1b (parallel/pipeline/schedule.hpp)
  int servers = 0;                         ///< parameter_server: ranks that keep the parameters
  int spares = 0;                          ///< parameter_server: workers that wait until one is gone
  std::int64_t staleness = 4;        ///< parameter_server: leases a worker may be ahead of the slowest; 0: lock-step
  std::int64_t lock_step_until = 0;  ///< parameter_server: updates made in lock-step before workers go their own ways
  std::string staleness_scaling = "none";  ///< parameter_server: none | inverse: rates of stale updates are cut
  double delay_compensation = 0;           ///< parameter_server: strength of delay compensation; 0: none
  std::int64_t push_every = 1;             ///< parameter_server: local steps by the worker's own optimizer per push
  double elastic = 0;                      ///< parameter_server: share of the way to the servers' weights per push
  std::int64_t longest_lease = 8;          ///< parameter_server: batches that a fast worker takes at a time
  double heartbeat_deadline_s = 10;        ///< parameter_server: a rank silent for longer is gone
  std::string transport = "auto";          ///< parameter_server: auto | shared | general
  bool record = false;                     ///< parameter_server: keep the order of events, for muster replay
  bool allow_oversubscribe = false;        ///< more ranks x threads than cores on a node

  /// Workers train with their own optimizers and push changes of the weights, not gradients.
  bool has_local_steps() const { return push_every > 1 || elastic > 0; }
};

}  // namespace muster::parallel
