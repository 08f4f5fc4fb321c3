// parallel: the scheme and the grid of ranks.
#include "config/table.hpp"

namespace muster::config {

namespace {

std::vector<ConfigKey> server_keys() {
  return {
      key<Config>(
          "parallel.servers", [](Config & c) -> auto& { return c.parallel.servers; }, at_least_if_stated(1),
          "parameter_server: ranks that keep the parameters; the others are workers")
          .unit("ranks"),
      key<Config>(
          "parallel.spares", [](Config & c) -> auto& { return c.parallel.spares; }, at_least_if_stated(1),
          "parameter_server: workers that wait until another is gone")
          .unit("ranks"),
      key<Config>(
          "parallel.staleness", [](Config & c) -> auto& { return c.parallel.staleness; },
          at_least_or("unbounded", 0, parallel::unbounded),
          "parameter_server: leases a worker may be ahead of the slowest; 0: lock-step")
          .unit("leases"),
      key<Config>(
          "parallel.lock_step_until", [](Config & c) -> auto& { return c.parallel.lock_step_until; }, at_least(0),
          "parameter_server: so many updates are made in lock-step before the workers go their own ways")
          .unit("updates"),
      key<Config>(
          "parallel.staleness_scaling", [](Config & c) -> auto& { return c.parallel.staleness_scaling; },
          choice({"none", "inverse"}),
          "parameter_server: inverse: the learning rate of an update s versions old is divided by s (s > 1)"),
      key<Config>(
          "parallel.delay_compensation", [](Config & c) -> auto& { return c.parallel.delay_compensation; }, at_least(0),
          "parameter_server: L: a late gradient g counts as g + L g g (weights now - weights it was computed at), "
          "element by element; 0: as it is"),
      key<Config>(
          "parallel.push_every", [](Config & c) -> auto& { return c.parallel.push_every; }, between(1, 1 << 20),
          "parameter_server: above 1: a worker makes so many steps with its own optimizer, then pushes by how much "
          "they "
          "have moved its weights, which the servers add to theirs")
          .unit("batches"),
      key<Config>(
          "parallel.elastic", [](Config & c) -> auto& { return c.parallel.elastic; }, between(0, 1),
          "parameter_server: above 0: workers keep weights of their own; every push moves them and the servers' "
          "towards "
          "each other by this part of the difference"),
      key<Config>(
          "parallel.longest_lease", [](Config & c) -> auto& { return c.parallel.longest_lease; }, between(1, 1024),
          "parameter_server: most pushes (of push_every batches) a worker takes work for at a time; the slowest takes "
          "one")
          .unit("pushes"),
      key<Config>(
          "parallel.heartbeat_deadline_s", [](Config & c) -> auto& { return c.parallel.heartbeat_deadline_s; },
          between(0.1, 1e6), "parameter_server: a rank that is silent for longer is gone")
          .unit("s"),
      key<Config>(
          "parallel.transport", [](Config & c) -> auto& { return c.parallel.transport; },
          choice({"auto", "shared", "general"}),
          "parameter_server: windows in shared memory (one node) or of MPI; auto: shared where possible"),
      key<Config>(
          "parallel.record", [](Config & c) -> auto& { return c.parallel.record; }, {},
          "parameter_server: keep the order of events in RUN/record.jsonl, for muster replay"),
  };
}

}  // namespace

std::vector<ConfigKey> parallel_keys() {
  std::vector<ConfigKey> keys{
      key<Config>(
          "parallel.strategy", [](Config & c) -> auto& { return c.parallel.strategy; },
          choice({"mirrored", "multi_worker_mirrored", "parameter_server"}),
          "mirrored: one node; multi_worker_mirrored: many nodes, all-reduce in two levels; parameter_server: workers "
          "of "
          "any speed"),
      key<Config>(
          "parallel.grid.data", [](Config & c) -> auto& { return c.parallel.data; }, at_least_or("auto", 1),
          "replicas, each with a part of the batch; auto: as many as the ranks allow"),
      key<Config>(
          "parallel.grid.pipeline", [](Config & c) -> auto& { return c.parallel.pipeline; }, at_least(1),
          "stages of a replica, one rank each; the network is cut into parts of equal cost"),
      key<Config>(
          "parallel.grid.tensor", [](Config & c) -> auto& { return c.parallel.tensor; }, at_least(1),
          "ranks that share each layer; more than 1 is not available in this version"),
      key<Config>(
          "parallel.pipeline_schedule", [](Config & c) -> auto& { return c.parallel.pipeline_schedule; },
          choice({"1f1b", "gpipe"}),
          "grid.pipeline > 1: order of a stage's work; 1f1b: forward and backward in turn, memory for at most as many "
          "micro-batches as stages; gpipe: all forwards first"),
      key<Config>(
          "parallel.grains", [](Config & c) -> auto& { return c.parallel.grains; }, at_least_or("auto", 1),
          "bitwise mode: parts of the global batch, at least the number of ranks; auto: min(8, batch)"),
      key<Config>(
          "parallel.wire", [](Config & c) -> auto& { return c.parallel.wire; }, choice({"fp32", "bf16"}),
          "gradients on their way between ranks (parameter_server: what workers push); bf16 halves the bytes (not with "
          "bitwise)"),
      key<Config>(
          "parallel.lr_scaling", [](Config & c) -> auto& { return c.parallel.lr_scaling; },
          choice({"none", "linear", "sqrt"}),
          "factor of the learning rate for n replicas: 1, n or sqrt(n); must be stated when n > 1")
          .example("none"),
      key<Config>(
          "parallel.shard", [](Config & c) -> auto& { return c.parallel.shard; },
          choice({"none", "optimizer", "gradients", "parameters"}),
          "what each replica keeps only its part of; optimizer: its state (ZeRO-1); gradients and parameters are not "
          "available in this version"),
      key<Config>(
          "parallel.bucket_kib", [](Config & c) -> auto& { return c.parallel.bucket_kib; }, between(1, 1 << 20),
          "gradients are reduced in pieces of this size while the backward pass goes on")
          .unit("KiB"),
      key<Config>(
          "parallel.allow_oversubscribe", [](Config & c) -> auto& { return c.parallel.allow_oversubscribe; }, {},
          "permit more ranks x threads than cores on a node"),
  };
  for (ConfigKey& key : server_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace muster::config
