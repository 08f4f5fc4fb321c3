#include "train/async_start.hpp"

#include <muster/base/log.hpp>
#include <muster/base/text.hpp>

namespace muster::train {
namespace {

std::string describe_staleness(const Config& config) {
  const auto& p = config.parallel;
  if (p.staleness == 0) return "0: lock-step, every worker computes a share of each batch";
  std::string text = p.staleness == parallel::unbounded ? "unbounded" : std::to_string(p.staleness);
  text += fmt::format(", leases of 1 to {} {}", p.longest_lease, p.has_local_steps() ? "pushes" : "batches");
  if (p.lock_step_until > 0) text += fmt::format("; lock-step before update {}", p.lock_step_until);
  if (p.delay_compensation > 0) text += fmt::format("; delays are compensated ({:g})", p.delay_compensation);
  if (p.staleness_scaling == "inverse") text += "; the rate of an update s > 1 versions old is divided by s";
  return text;
}

}  // namespace

void tell_start(const ServerRank& server, const RunData& data, std::int64_t first_step) {
  const AsyncJob& job = server.job;
  const Config& config = job.config();
  const auto& roles = job.roles;
  log::info("run         {} in {}", config.run.name, config.run.directory);
  for (const std::string& line : job.loaded.table) log::info("config      {}", line);
  for (int rank = 0; rank < roles.ranks(); ++rank) {
    const bool is_server = roles.is_server(rank);
    const bool is_spare = !is_server && roles.worker_of(rank) >= roles.workers - roles.spares;
    log::info("rank {:<6} {} {} on {}", rank,
              is_server  ? (rank == 0 ? "server and coordinator" : "server")
              : is_spare ? "spare worker"
                         : "worker",
              is_server ? rank : roles.worker_of(rank), job.world().host(rank));
  }
  std::vector<std::string> sizes;
  for (const Range& shard : job.shards.ranges)
    sizes.push_back(human_bytes(static_cast<std::uint64_t>(shard.size()) * sizeof(float)));
  log::info("shards      {} (largest {:.2f} of the mean), {} versions, windows: {}", join(sizes, ", "),
            job.shards.imbalance(), parallel::version_buffers, job.window->describe());
  log::info("transport   {}", job.window_facts.describe(job.world()));
  log::info("staleness   {}", describe_staleness(config));
  if (job.sizes.is_bf16) log::info("wire        what workers push is rounded to bfloat16");
  if (job.has_local_steps())
    log::info("pushes      changes made by {} steps of a worker's own {}, whose state is in no checkpoint",
              config.parallel.push_every, config.optimizer.kind);
  if (config.parallel.elastic > 0)
    log::info("elastic     workers keep weights of their own; a push takes both {:g} of the way to each other",
              config.parallel.elastic);
  log::info("network     {} layers, {} parameters", server.model.network.nodes.size(),
            server.model.network.parameter_count());
  log::info("device      {}, {} thread{} per rank", server.model.backend->describe(), server.model.threads,
            server.model.threads == 1 ? "" : "s");
  log::info("data        {}", data.train->describe());
  log::info("length      {} steps, {} per epoch{}", data.total_steps, data.steps_per_epoch,
            first_step > 0 ? fmt::format(", resumed at step {}", first_step) : "");
}

}  // namespace muster::train
