// check_ranks: a config against the number of ranks of the job.
#include "config/validate.hpp"

#include <muster/config/config.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace muster::config {

namespace {

/// The batch must have a share for every replica.
void check_shares(const train::Config& config, std::int64_t replicas, std::vector<std::string>& problems) {
  const auto add = [&](const std::string& text) { problems.push_back(text); };
  const std::int64_t batch = config.data.batch, unit = batch_norm_unit(config.model.layers), groups = batch / unit;
  if (batch < replicas) {
    add(fmt::format(
        "data.batch: fewer samples than ranks: {} samples for {} replicas; raise the batch or use fewer ranks", batch,
        replicas));
    return;
  }
  if (groups < replicas)
    add(
        fmt::format("data.batch: batch_norm groups of {} cut the batch of {} into {} groups, too few for {} replicas; "
                    "raise the batch or lower the group",
                    unit, batch, groups, replicas));
  if (config.run.reproducible == "bitwise") {
    const std::int64_t grains = config.parallel.grains > 0 ? config.parallel.grains : std::min<std::int64_t>(8, groups);
    if (grains < replicas)
      add(
          fmt::format("parallel.grains: bitwise mode cuts the batch into {} grains, too few for {} replicas; set "
                      "parallel.grains to {} or more "
                      "(other grains, other bits)",
                      grains, replicas, replicas));
  } else if (groups >= replicas && groups / replicas < config.run.accumulate) {
    add(fmt::format("run.accumulate: {} micro-batches on each of {} replicas need a batch of at least {}, found {}",
                    config.run.accumulate, replicas, config.run.accumulate * replicas * unit, batch));
  }
}

/// Only lock-step cuts a batch, over as many workers as there may be.
std::vector<std::string> check_servers(const train::Config& config, int ranks) {
  const auto& p = config.parallel;
  const std::int64_t workers = std::int64_t{ranks} - p.servers;
  if (workers < 1)
    return {fmt::format("parallel.servers: {} of {} ranks as servers leave no worker; start at least {} ranks",
                        p.servers, ranks, std::int64_t{p.servers} + 1)};
  if (p.spares >= workers)
    return {fmt::format("parallel.spares: {} of {} workers as spares leave none to train; start at least {} ranks",
                        p.spares, workers, std::int64_t{p.servers} + p.spares + 1)};
  std::vector<std::string> problems;
  if (p.staleness == 0 || p.lock_step_until > 0) check_shares(config, workers, problems);
  return problems;
}

}  // namespace

std::vector<std::string> check_ranks(const train::Config& config, int ranks) {
  if (config.parallel.strategy == "parameter_server") return check_servers(config, ranks);
  std::vector<std::string> problems;
  const auto add = [&](const std::string& text) { problems.push_back(text); };
  const auto& p = config.parallel;
  if (p.data == 0 && ranks % p.pipeline != 0) {
    add(fmt::format("parallel.grid: {} ranks cannot be shared out over replicas of {} stages; start a multiple of {}",
                    ranks, p.pipeline, p.pipeline));
    return problems;
  }
  const std::int64_t replicas = p.data > 0 ? p.data : ranks / p.pipeline;
  if (p.data > 0 && std::int64_t{p.data} * p.pipeline * p.tensor != ranks)
    add(
        fmt::format("parallel.grid: data x pipeline x tensor = {} x {} x {} needs {} ranks, the job has {}; start that "
                    "many, or set data: auto",
                    p.data, p.pipeline, p.tensor, std::int64_t{p.data} * p.pipeline * p.tensor, ranks));
  if (replicas > 1 && p.lr_scaling.empty())
    add(fmt::format(
        "parallel.lr_scaling: must be stated when more than one replica trains ({} here): none keeps optimizer.lr, "
        "linear multiplies it by {}, sqrt by its root",
        replicas, replicas));
  check_shares(config, replicas, problems);
  return problems;
}

}  // namespace muster::config
