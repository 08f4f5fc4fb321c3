#include "train/async.hpp"

#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/status_file.hpp>
#include <muster/base/text.hpp>
#include <muster/parallel/server/shard_server.hpp>
#include <muster/parallel/server/share.hpp>
#include <muster/train/run_directory.hpp>
#include <muster/train/state.hpp>
#include <muster/train/together.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace muster::train {
namespace {

comm::WindowKind window_kind(const Config& config, const comm::Communicator& world) {
  if (config.parallel.transport == "shared") return comm::WindowKind::shared;
  if (config.parallel.transport == "general") return comm::WindowKind::general;
  return world.is_one_node() ? comm::WindowKind::shared : comm::WindowKind::general;
}

}  // namespace

std::int64_t AsyncJob::lock_step_until() const {
  return config().parallel.staleness == 0 ? std::numeric_limits<std::int64_t>::max()
                                          : config().parallel.lock_step_until;
}

parallel::Roles roles_of(const Config& config, int ranks) {
  return {config.parallel.servers, ranks - config.parallel.servers, config.parallel.spares};
}

std::int64_t running_elements(const model::Network& network) {
  std::int64_t elements = 0;
  for (const auto& state : network.states) elements += state.shape.elements();
  return elements;
}

namespace {

/// Calls body(values of the store, offset in the vector) for every running value.
template <class Body>
void for_running(model::ParameterStore& store, std::size_t elements, const Body& body) {
  std::size_t at = 0;
  for (int s = 0; at < elements; ++s) {
    const std::span<float> values = store.state(s);
    body(values, at);
    at += values.size();
  }
}

}  // namespace

void copy_running(model::ParameterStore& store, std::span<float> into) {
  for_running(store, into.size(), [&](std::span<float> values, std::size_t at) {
    std::ranges::copy(values, into.begin() + static_cast<std::ptrdiff_t>(at));
  });
}
void set_running(model::ParameterStore& store, std::span<const float> from) {
  for_running(store, from.size(), [&](std::span<float> values, std::size_t at) {
    std::ranges::copy(from.subspan(at, values.size()), values.begin());
  });
}

namespace {

/// Where the norm of a gradient must not depend on the number of servers, the pieces it is summed of stay whole.
std::int64_t granule(const Config& config) {
  constexpr std::int64_t cache_line = 16;
  return config.run.reproducible == "bitwise" && config.optimizer.clip_norm > 0 ? optim::norm_piece : cache_line;
}

}  // namespace

parallel::Shards cut_model(const Config& config, const TrainableModel& model, int servers) {
  return parallel::cut_shards(model.store->elements(), running_elements(model.network), servers,
                              model.optimizer->needs_whole_parameters(), model.runs, granule(config));
}

namespace {

/// Room for everybody's shares, however many workers there are at a time.
parallel::WindowSizes window_sizes(const AsyncJob& job, const TrainableModel& model) {
  const std::size_t slots = job.has_local_steps() ? 0 : model.optimizer->slots().size();
  parallel::WindowSizes sizes;
  sizes.optimizer_slots = static_cast<int>(slots);
  sizes.is_bf16 = job.config().parallel.wire == "bf16";
  sizes.keeps_pulled = job.config().parallel.delay_compensation > 0;
  if (job.lock_step_until() == 0) return sizes;
  sizes.parts = parallel::most_subtrees(job.roles.workers,
                                        [&](int n) { return grain_plan(job.config(), model.network, n, 0).grains; });
  sizes.statistics = sizes.parts * model.programs->lead().widest_statistics();
  return sizes;
}

/// A server is gone: this rank may be inside an MPI call that will never return, so it ends here.
void end_without(const AsyncJob& job, int server) {
  const std::string who = server == 0 ? "the coordinator" : fmt::format("parameter server {}", server);
  log::write_error(fmt::format("muster: error: lost {} (rank {} on {}): its process has ended", who, server,
                               job.world().host(server)));
  write_status_file(static_cast<int>(ExitCode::comm));
  std::_Exit(static_cast<int>(ExitCode::comm));
}

void tie_lifelines(AsyncJob& job) {
  job.lifeline = std::make_unique<comm::Lifeline>(job.world(), job.roles.servers,
                                                  [&job](int server) { end_without(job, server); });
  const auto untied = job.world().all_gather_text(join(job.lifeline->untied(), ", "), "lifelines");
  for (std::size_t rank = 0; rank < untied.size() && job.world().rank() == 0; ++rank)
    if (!untied[rank].empty())
      log::warn("rank {} would learn of the death of a server only after run.deadline_s: no TCP connection to {}", rank,
                untied[rank]);
}

/// Between the coordinator and the first worker on another host, if there is one.
comm::WindowFacts probe(const AsyncJob& job, comm::WindowKind kind) {
  constexpr double limit_s = 20;
  const comm::Communicator& world = job.world();
  int prober = job.roles.rank_of_worker(0);
  for (int rank = world.size() - 1; rank >= job.roles.servers; --rank)
    if (world.host(rank) != world.host(0)) prober = rank;
  return comm::probe_window(job.world(), kind, 0, prober, std::min(limit_s, job.config().run.deadline_s));
}

/// Every rank cuts alike; servers get room for their shard and everybody's gradients, workers only reach out.
void connect(AsyncJob& job, TrainableModel& model) {
  check_layouts(job.world(), model);
  job.shards = parallel::cut_shards(model.store->elements(), running_elements(model.network), job.roles.servers,
                                    model.optimizer->needs_whole_parameters(), model.runs, granule(job.config()));
  job.sizes = window_sizes(job, model);
  const int rank = job.world().rank();
  const std::size_t bytes =
      job.roles.is_server(rank) ? parallel::ShardServer::window_bytes(job.roles, job.shards, rank, job.sizes) : 0;
  const comm::WindowKind kind = window_kind(job.config(), job.world());
  job.window_facts = probe(job, kind);
  job.window = job.world().window(bytes, kind);
  if (job.window->kind() == comm::WindowKind::general) tie_lifelines(job);
}

void open_run(AsyncJob& job) {
  const std::filesystem::path directory = job.config().run.directory;
  job.open_run = open_run_directory(directory, job.flags.is_resumed, job.flags.is_forced);
  log::open_file(directory / "log.txt");
}

void restore(AsyncJob& job, const RunData& data, TrainableModel& model) {
  const CheckpointState state = load_newest_checkpoint(job.config().run.directory);
  check_same_run(state, job.config(), data);
  restore_state(state, model);
  job.first_step = state.step;
  job.done_beyond = state.done_beyond;
}

}  // namespace

void start_together(AsyncJob& job, const RunData& data, const std::function<TrainableModel&()>& assemble) {
  const bool is_server = job.roles.is_server(job.world().rank());
  TrainableModel* model = nullptr;
  together(job.world(), "assembling the network", [&] { model = &assemble(); });
  together(job.world(), "run directory", [&] {
    if (job.world().rank() == 0) open_run(job);
  });
  together(job.world(), "resume", [&] {
    if (is_server) model->store->initialise(job.config().run.seed);
    if (is_server && !job.flags.is_resumed && !job.config().model.weights.empty())
      load_start_weights(job.config().model.weights, *model);
    if (is_server && job.flags.is_resumed) restore(job, data, *model);
  });
  together(job.world(), "effective config", [&] {  // only now: a resume that is refused leaves the run as it was
    if (job.world().rank() == 0)
      write_file_atomic(std::filesystem::path(job.config().run.directory) / "config.yaml", job.loaded.effective_yaml);
  });
  together(job.world(), "one-sided memory", [&] { connect(job, *model); });
}

ExitCode train_async(comm::Session& session, const config::Loaded& loaded, const TrainFlags& flags) {
  AsyncJob job{session, loaded, flags, roles_of(loaded.config, session.world().size()), {}, {}, {}, nullptr, {},
               nullptr, 0,      {}};
  session.set_deadline(job.config().run.deadline_s);
  const bool is_server = job.roles.is_server(job.world().rank());
  together(job.world(), "launch check", [&] {
    if (const auto problems = config::check_ranks(job.config(), job.world().size()); !problems.empty())
      throw Error(ExitCode::usage, join(problems, "\n"));
    comm::check_launch(session, job.threads(), job.config().parallel.allow_oversubscribe);
  });
  RunData data;
  together(job.world(), "opening the data",
           [&] { data = open_run_data(job.config(), job.roles.workers, job.world().rank() == 0); });
  return is_server ? run_server(job, std::move(data)) : run_worker(job, std::move(data));
}

}  // namespace muster::train
