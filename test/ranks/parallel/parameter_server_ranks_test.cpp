// The protocol of the parameter servers with a toy model: rank 0 (and 1) serve, the others work. The gradient that a
// worker pushes for batch b is known, the optimizer is plain sgd with lr 1, so the weights must end at minus the sum of
// all gradients, each added once: in integers that float holds exactly.
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"

#include <muster/base/clock.hpp>
#include <muster/parallel/server/client.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <sched.h>
#include <tuple>

MUSTER_RANKS(ParameterServer, 2, 3, 4);
MUSTER_RANKS(SilentWorker, 3, 4);

namespace muster::parallel {
namespace {

constexpr std::int64_t parameters = 1600, running = 5, batches = 60;

/// Element i of the gradient of batch b.
float gradient_of(std::int64_t batch, std::int64_t i) { return static_cast<float>(batch % 7 + i % 11); }
float final_weight(std::int64_t i) {
  float sum = 0;
  for (std::int64_t b = 0; b < batches; ++b) sum += gradient_of(b, i);
  return -sum;
}

struct Job {
  std::unique_ptr<comm::Communicator> world = test::world();
  Roles roles;
  Shards shards;
  std::unique_ptr<comm::Window> window;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<optim::ParamRun> runs{{"w", {0, parameters}, true}};

  Job(int servers, comm::WindowKind kind) {
    roles = {servers, world->size() - servers, 0};
    shards = cut_shards(parameters, running, servers, false, runs);
    optim::OptimizerOptions options;
    options.lr = 1;
    optimizer = optim::make_optimizer(options);
    const bool serves = roles.is_server(world->rank());
    window = world->window(serves ? ShardServer::window_bytes(roles, shards, world->rank(), {}) : 0, kind);
  }
};

/// The coordinator; silent_worker: stays alive but is told nothing is wrong until it has been silent.
struct Outcome {
  std::int64_t updates = 0;
  std::int64_t largest_staleness = 0;
  std::vector<std::int64_t> gone, back;
};

Outcome coordinate(Job& job, ShardServer& server, const LeaseOptions& leases, double deadline_s) {
  LeaseBook book({0, batches}, {}, job.roles.workers, leases);
  Coordinator coordinator(*job.window, job.roles, job.shards, {}, server, book,
                          [](std::int64_t, std::int64_t) { return 1.0; },
                          {deadline_s, {}, 0, [](int) { return std::int64_t{1}; }, 0});
  Outcome outcome;
  const Deadline limit("the test", 15);
  bool has_asked = false;
  for (;;) {
    EXPECT_FALSE(limit.is_over()) << book.committed() << " of " << batches << " batches";
    if (limit.is_over()) break;
    coordinator.poll();
    for (const Applied& update : coordinator.applied()) {
      ++outcome.updates;
      EXPECT_EQ(update.version, outcome.updates);
      EXPECT_LE(update.base, update.version - 1);
      outcome.largest_staleness = std::max(outcome.largest_staleness, update.version - 1 - update.base);
    }
    for (const Attendance& event : coordinator.attendance())
      (event.is_back ? outcome.back : outcome.gone).push_back(event.worker);
    if (book.is_done() && coordinator.is_idle()) {
      if (!has_asked) coordinator.request_snapshot();
      has_asked = true;
      if (const auto snapshot = coordinator.snapshot()) {
        EXPECT_EQ(snapshot->version, batches);
        EXPECT_EQ(snapshot->first_open, batches);
        break;
      }
    }
    ::sched_yield();
  }
  for (int s = 0; s < job.roles.servers; ++s) {
    const Range range = job.shards.ranges[static_cast<std::size_t>(s)];
    std::vector<float> part(static_cast<std::size_t>(range.size()));
    coordinator.read_snapshot(s, 0, part);
    for (std::int64_t i = range.begin; i < std::min(range.end, parameters); ++i)
      EXPECT_EQ(part[static_cast<std::size_t>(i - range.begin)], final_weight(i)) << "element " << i;
  }
  coordinator.end();
  return outcome;
}

void serve(Job& job, const LeaseOptions& leases, double deadline_s, Outcome& outcome) {
  const int rank = job.world->rank();
  const Range range = job.shards.ranges[static_cast<std::size_t>(rank)];
  ShardServer server(*job.window, job.roles, job.shards, {}, rank, *job.optimizer, job.runs, 1);
  server.start(0, std::vector<float>(static_cast<std::size_t>(range.size())), {});
  job.world->barrier("servers are ready");
  if (rank == 0) {
    outcome = coordinate(job, server, leases, deadline_s);
    return;
  }
  while (server.look_up(10) == Ending::none)
    if (!server.follow_log()) ::sched_yield();
}

/// Every pulled version must be whole: the sum of gradients of some set of batches, the same set for all elements of a
/// shard, so two elements of it determine each other.
void check_whole(const Job& job, const std::vector<float>& weights) {
  for (const Range& shard : job.shards.ranges) {
    const std::int64_t end = std::min(shard.end, parameters);
    for (std::int64_t i = shard.begin; i + 11 < end; ++i)
      ASSERT_EQ(weights[static_cast<std::size_t>(i)], weights[static_cast<std::size_t>(i + 11)]) << "element " << i;
  }
}

/// silent_at: batch at which this worker falls silent for silent_s. batch_s: how long a batch takes. Returns whether
/// all ranks are there at the end.
bool work(Job& job, std::int64_t silent_at, double silent_s, double batch_s) {
  job.world->barrier("servers are ready");
  ServerClient client(*job.window, job.roles, job.shards, {}, job.roles.worker_of(job.world->rank()),
                      [] { return false; }, {10, 0.001});
  std::vector<float> weights(parameters), values(running), gradient(parameters);
  for (;;) {
    const Task task = client.next_task();
    if (task.kind == Task::Kind::leave) break;
    EXPECT_EQ(task.kind, Task::Kind::train);
    for (std::int64_t b = task.batches.begin; b < task.batches.end; ++b) {
      client.pull(weights, values, -1);
      check_whole(job, weights);
      for (std::int64_t i = 0; i < parameters; ++i) gradient[static_cast<std::size_t>(i)] = gradient_of(b, i);
      const bool is_silent = silent_at >= 0 && b >= silent_at;
      const Stopwatch watch;
      while (watch.elapsed_s() < (is_silent ? silent_s : batch_s)) {
        ::sched_yield();
        if (!is_silent) client.beat();
      }
      if (is_silent) silent_at = -1;
      try {
        client.push(0, {0, parameters}, gradient);
        client.push(0, {parameters, parameters + running}, values);
        client.commit({b, 1, 0, 0, 0, 1.0, 1e-3, true, {}});
      } catch (const VoidTask&) {
        break;
      }
    }
  }
  return client.ends_clean();
}

class ParameterServer : public testing::TestWithParam<std::tuple<comm::WindowKind, int>> {
 protected:
  comm::WindowKind kind() const { return std::get<0>(GetParam()); }
  int servers() const { return std::min(std::get<1>(GetParam()), test::session().world().size() - 1); }
};

TEST_P(ParameterServer, AppliesEveryBatchOnce) {
  Job job(servers(), kind());
  Outcome outcome;
  if (job.roles.is_server(job.world->rank())) serve(job, {0, true, 4}, 10, outcome);
  else EXPECT_TRUE(work(job, -1, 0, 0));
  if (job.world->rank() == 0) {
    EXPECT_EQ(outcome.updates, batches);
    EXPECT_TRUE(outcome.gone.empty());
  }
  job.world->barrier("end");
  job.window->close();
}

/// With staleness 1 and leases of one batch, a worker that takes its lease at clock c finds every other worker at c - 1
/// at the least, and none can come further than c + 2 before it commits: 3 commits of each in between.
TEST_P(ParameterServer, KeepsStalenessWithinItsBound) {
  Job job(servers(), kind());
  Outcome outcome;
  if (job.roles.is_server(job.world->rank())) serve(job, {1, false, 1}, 10, outcome);
  else EXPECT_TRUE(work(job, -1, 0, 0));
  if (job.world->rank() == 0) {
    EXPECT_EQ(outcome.updates, batches);
    EXPECT_LE(outcome.largest_staleness, 3 * (job.roles.workers - 1) + 2 * job.roles.workers * (job.roles.servers - 1));
  }
  job.world->barrier("end");
  job.window->close();
}

INSTANTIATE_TEST_SUITE_P(Windows, ParameterServer,
                         testing::Combine(testing::Values(comm::WindowKind::shared, comm::WindowKind::general),
                                          testing::Values(1, 2)));

class SilentWorker : public testing::TestWithParam<comm::WindowKind> {};

/// A worker that falls silent in the middle of a batch is declared gone; its batch is done by another (or by itself
/// once it is back), and what it pushes late is not applied.
TEST_P(SilentWorker, IsDroppedAndLetInAgain) {
  Job job(1, GetParam());
  Outcome outcome;
  if (job.roles.is_server(job.world->rank())) serve(job, {0, true, 1}, 1.0, outcome);
  else EXPECT_TRUE(work(job, job.roles.worker_of(job.world->rank()) == 0 ? 3 : -1, 2.4, 0.12));
  if (job.world->rank() == 0) {
    EXPECT_EQ(outcome.updates, batches);
    EXPECT_EQ(outcome.gone, std::vector<std::int64_t>{0});
    EXPECT_EQ(outcome.back, std::vector<std::int64_t>{0});
  }
  job.world->barrier("end");
  job.window->close();
}

INSTANTIATE_TEST_SUITE_P(Windows, SilentWorker, testing::Values(comm::WindowKind::shared, comm::WindowKind::general));

}  // namespace
}  // namespace muster::parallel
