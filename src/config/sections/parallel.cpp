// parallel: the scheme and the grid of ranks.
#include "config/table.hpp"

namespace muster::config {

std::vector<ConfigKey> parallel_keys() {
  return {
      key<Config>(
          "parallel.strategy", [](Config & c) -> auto& { return c.parallel.strategy; },
          choice({"mirrored", "multi_worker_mirrored"}, {"parameter_server"}),
          "mirrored: one node; multi_worker_mirrored: many nodes, all-reduce in two levels"),
      key<Config>(
          "parallel.grid.data", [](Config & c) -> auto& { return c.parallel.data; }, at_least_or("auto", 1),
          "replicas, each with a part of the batch; auto: all ranks"),
      key<Config>(
          "parallel.grid.pipeline", [](Config & c) -> auto& { return c.parallel.pipeline; }, at_least(1),
          "stages of a replica; more than 1 is not available in this version"),
      key<Config>(
          "parallel.grid.tensor", [](Config & c) -> auto& { return c.parallel.tensor; }, at_least(1),
          "ranks that share each layer; more than 1 is not available in this version"),
      key<Config>(
          "parallel.grains", [](Config & c) -> auto& { return c.parallel.grains; }, at_least_or("auto", 1),
          "bitwise mode: parts of the global batch, at least the number of ranks; auto: min(8, batch)"),
      key<Config>(
          "parallel.wire", [](Config & c) -> auto& { return c.parallel.wire; }, choice({"fp32", "bf16"}),
          "gradients on their way between ranks; bf16 halves the bytes (not with bitwise)"),
      key<Config>(
          "parallel.lr_scaling", [](Config & c) -> auto& { return c.parallel.lr_scaling; },
          choice({"none", "linear", "sqrt"}),
          "factor of the learning rate for n replicas: 1, n or sqrt(n); must be stated when n > 1")
          .example("none"),
      key<Config>(
          "parallel.bucket_kib", [](Config & c) -> auto& { return c.parallel.bucket_kib; }, between(1, 1 << 20),
          "gradients are reduced in pieces of this size while the backward pass goes on")
          .unit("KiB"),
      key<Config>(
          "parallel.allow_oversubscribe", [](Config & c) -> auto& { return c.parallel.allow_oversubscribe; }, {},
          "permit more ranks x threads than cores on a node"),
  };
}

}  // namespace muster::config
