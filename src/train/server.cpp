#include "train/server.hpp"

#include "train/local_steps.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/log.hpp>
#include <muster/base/pause.hpp>

#include <algorithm>

namespace muster::train {
namespace {

/// Elements of a shard out of parameters followed by running values.
std::vector<float> cut(const Range& shard, std::span<const float> parameters, std::span<const float> running) {
  std::vector<float> part;
  part.reserve(static_cast<std::size_t>(shard.size()));
  const auto size = static_cast<std::int64_t>(parameters.size());
  for (std::int64_t i = shard.begin; i < shard.end; ++i)
    part.push_back(i < size ? parameters[static_cast<std::size_t>(i)] : running[static_cast<std::size_t>(i - size)]);
  return part;
}

void follow(ServerRank& server) {
  const double deadline_s = server.job.config().parallel.heartbeat_deadline_s;
  Stopwatch idle;
  for (;;) {
    if (server.shard->follow_log()) {
      idle.restart();
      continue;
    }
    const parallel::Ending ending = server.shard->look_up(deadline_s);
    if (ending == parallel::Ending::ranks_lost) server.job.session.set_ranks_lost();
    if (ending != parallel::Ending::none) {
      if (server.job.lifeline) server.job.lifeline->say_farewell();
      return;
    }
    pass_time(idle.elapsed_s());
  }
}

}  // namespace

ServerRank::ServerRank(AsyncJob& its_job, const RunData& data)
    : job(its_job), model(job.config(), parallel::GridPlace{}, data.size, job.threads()) {}

std::vector<float> ServerRank::cut_weights() {
  std::vector<float> running(static_cast<std::size_t>(job.shards.running));
  copy_running(*model.store, running);
  return cut(job.shards.ranges[static_cast<std::size_t>(job.world().rank())], model.store->weights(), running);
}
std::vector<float> ServerRank::cut_state(std::size_t slot) {
  const std::vector<float> none(static_cast<std::size_t>(job.shards.running));
  return cut(job.shards.ranges[static_cast<std::size_t>(job.world().rank())], model.optimizer_state[slot], none);
}

void ServerRank::start() {
  if (job.has_local_steps()) {  // the workers keep the optimizer's state; checkpoints say that it is empty
    change_optimizer = make_change_optimizer();
    const auto is_empty = [](std::span<float> slot) {
      return std::ranges::all_of(slot, [](float value) { return value == 0.0f; });
    };
    if (!std::ranges::all_of(model.optimizer_state, is_empty))
      log::warn("the optimizer's state in the checkpoint is left: that of the workers' own optimizers begins empty");
    for (const std::span<float> slot : model.optimizer_state) std::ranges::fill(slot, 0.0f);
  }
  const optim::Optimizer& optimizer = change_optimizer ? *change_optimizer : *model.optimizer;
  shard = std::make_unique<parallel::ShardServer>(*job.window, job.roles, job.shards, job.sizes, job.world().rank(),
                                                  optimizer, model.runs, job.threads());
  std::vector<std::vector<float>> state;
  for (int slot = 0; slot < job.sizes.optimizer_slots; ++slot)
    state.push_back(cut_state(static_cast<std::size_t>(slot)));
  shard->start(job.first_step, cut_weights(), {state.begin(), state.end()});
}

ExitCode run_server(AsyncJob& job, RunData data) {
  const auto none = job.world().split(-1, 0, "alone");  // collective with the workers, which go into groups of one
  std::unique_ptr<ServerRank> server;
  start_together(job, data, [&]() -> TrainableModel& {
    server = std::make_unique<ServerRank>(job, data);
    return server->model;
  });
  server->start();
  job.world().barrier("start of the servers");
  if (job.world().rank() == 0) return coordinate(*server, data);
  follow(*server);
  return ExitCode::done;
}

}  // namespace muster::train
