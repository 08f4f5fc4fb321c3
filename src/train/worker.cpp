// A worker of the parameter-server strategy: takes a lease, and for each of its batches
//
//   pull      the newest weights and running values
//   gradient  forward, loss, backward: the same step as everywhere (step.cpp); what is ready of the gradient goes to
//   the
//             servers while the backward pass goes on
//   commit    the new running values, then one word to the coordinator
//
// With parallel.push_every above 1, or parallel.elastic, it makes several steps by itself between two pushes instead:
// local_steps.hpp. Nothing is waited for but work, weights, and the slots of the commit before the last. In lock-step
// it takes a share of a batch instead, at a version that all workers share, and the step's sums over the batch go
// through the servers.
#include "train/async.hpp"

#include "train/local_steps.hpp"
#include "train/update_rate.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/parallel/server/client.hpp>
#include <muster/parallel/server/share.hpp>
#include <muster/train/audit.hpp>
#include <muster/train/evaluate.hpp>
#include <muster/train/signals.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <thread>

namespace muster::train {
namespace {

/// For tests and benchmarks of unequal machines: this worker takes longer, MUSTER_SLOW_WORKER=W:FACTOR.
double slowness(int worker) {
  const char* text = std::getenv("MUSTER_SLOW_WORKER");
  if (text == nullptr) return 1;
  char* rest = nullptr;
  const long which = std::strtol(text, &rest, 10);
  const double factor = *rest == ':' ? std::strtod(rest + 1, &rest) : 0;
  if (!(factor >= 1) || *rest != '\0')
    fail(ExitCode::usage, "MUSTER_SLOW_WORKER={}: expected WORKER:FACTOR with a factor of at least 1", text);
  return which == worker ? factor : 1;
}

void add(parallel::CommitFacts& facts, const model::MicroBatchResult& sums) {
  facts.rows += sums.rows;
  facts.loss_units += sums.loss_units;
  facts.correct += sums.correct;
  facts.top_k_correct += sums.top_k_correct;
}

class Worker {
 public:
  Worker(AsyncJob& job, RunData data);
  void work();
  bool ends_clean() { return client_->ends_clean(); }

 private:
  void become(int replicas, int replica);
  ReplicaLinks links_of(int replicas, int replica);
  void train(const Range& batches);
  void train_locally(const Range& batches);
  void push_change(const Range& group);
  void take_share(const parallel::Task& task);
  const dataset::Batch& share_of(std::int64_t step);
  void order(std::int64_t step);
  void compute(const dataset::Batch& batch, std::int64_t step, std::int64_t at_least);
  void evaluate();
  void lag(double compute_s);

  AsyncJob& job_;
  RunData data_;
  std::unique_ptr<comm::Communicator> alone_;  // for evaluations
  std::unique_ptr<TrainableModel> first_;      // until the windows are made
  std::vector<device::TensorDesc> layouts_;    // everybody's, whatever the shares
  std::unique_ptr<parallel::ServerClient> client_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<dataset::BatchQueue> queue_;
  std::deque<std::int64_t> ordered_;   // steps whose shares the queue has or reads
  std::vector<float> running_;         // as pulled: what did not change since is not copied again
  std::vector<float> new_running_;     // as pushed
  Config own_config_;                  // nothing that stays with the worker is rounded as what is pushed
  std::unique_ptr<LocalState> local_;  // where the worker has an optimizer of its own
  std::vector<float> pulled_, change_;
  optim::Schedule schedule_;
  double slowness_;
};

Worker::Worker(AsyncJob& job, RunData data)
    : job_(job),
      data_(std::move(data)),
      schedule_(job.config().schedule, data_.total_steps, static_cast<double>(data_.steps_per_epoch)),
      slowness_(slowness(job.roles.worker_of(job.world().rank()))) {
  const Config& config = job_.config();
  const int rank = job_.world().rank();
  alone_ = job_.world().split(rank, 0, "alone");
  start_together(job_, data_, [this]() -> TrainableModel& {
    first_ = std::make_unique<TrainableModel>(job_.config(), parallel::GridPlace{}, data_.size, job_.threads());
    return *first_;
  });
  own_config_ = config;
  own_config_.parallel.wire = "fp32";
  layouts_ = first_->store->descs();
  first_.reset();
  running_.resize(static_cast<std::size_t>(job_.shards.running));
  new_running_.resize(running_.size());
  if (job_.has_local_steps()) {
    pulled_.resize(static_cast<std::size_t>(job_.shards.parameters));
    change_.resize(pulled_.size());
  }
  dataset::QueueOptions options = queue_options(config);
  options.rows_of = [](std::int64_t rows) { return Range{0, rows}; };
  queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_.train), options);
  job_.world().barrier("start of the servers");
  client_ = std::make_unique<parallel::ServerClient>(
      *job_.window, job_.roles, job_.shards, job_.sizes, job_.roles.worker_of(rank), [] { return is_stop_requested(); },
      parallel::ClientOptions{config.parallel.heartbeat_deadline_s, config.parallel.heartbeat_deadline_s / 20});
}

void Worker::work() {
  for (;;) {
    const parallel::Task task = client_->next_task();
    try {
      switch (task.kind) {
        case parallel::Task::Kind::train:
          train(task.batches);
          break;
        case parallel::Task::Kind::share:
          take_share(task);
          break;
        case parallel::Task::Kind::evaluate:
          evaluate();
          break;
        case parallel::Task::Kind::leave:
          return;
      }
    } catch (const parallel::VoidTask&) {
      if (local_) local_->clear();  // what was computed is somebody else's now
    }
  }
}

/// How the step's sums are made: through the servers, but here where only the change of several steps goes there.
ReplicaLinks Worker::links_of(int replicas, int replica) {
  if (job_.has_local_steps()) {
    ReplicaLinks links = links_over(own_config_, *alone_, job_.threads());
    links.layouts = layouts_;
    return links;
  }
  parallel::ServerClient& client = *client_;
  return {
      {replicas, replica},
      {},
      [&](const parallel::GrainPlan& plan, std::int64_t elements) {
        return make_share_reducer(client, plan, elements, job_.shards.parameters);
      },
      [&](const parallel::GrainPlan& plan, std::int64_t width) { return make_share_statistics(client, plan, width); },
      {},
      replicas == 1,
      layouts_,
      nullptr,
      nullptr};
}

/// One of so many replicas: its programs are made for its share of a batch. Anew only where the shares change.
void Worker::become(int replicas, int replica) {
  if (replica_ && replica_->plan.replicas == replicas && replica_->plan.replica == replica) return;
  client_->forget();
  evaluator_.reset();
  replica_.reset();
  replica_ = std::make_unique<Replica>(job_.config(), links_of(replicas, replica), data_.size, job_.threads(),
                                       [&client = *client_] { client.beat(); });
  evaluator_ = std::make_unique<Evaluator>(job_.config(), replica_->network, *replica_->backend, *replica_->store,
                                           *alone_, replica_->threads);
  while (!ordered_.empty()) {  // other rows than are wanted now
    queue_->next();
    ordered_.pop_front();
  }
}

/// A lease: its batches are ordered at once, so that the next is read while one is computed. Those that are left when
/// the lease turns out to be void, or the run ends, are thrown away.
void Worker::train(const Range& batches) {
  become(1, 0);
  for (std::int64_t step = batches.begin; step < batches.end; ++step) order(step);
  if (job_.has_local_steps()) return train_locally(batches);
  for (std::int64_t step = batches.begin; step < batches.end; ++step) {
    compute(share_of(step), step, -1);
    if (client_->is_run_stopping()) return;
  }
}

/// Push by push; no push is of two epochs.
void Worker::train_locally(const Range& batches) {
  if (!local_) local_ = std::make_unique<LocalState>(*replica_, job_.config().parallel.elastic);
  Range group{batches.begin, batches.begin};
  while (group.end < batches.end) {
    group.begin = group.end;
    group.end = std::min({group.begin + job_.config().parallel.push_every, batches.end,
                          data_.first_step_of_epoch(group.begin) + data_.steps_per_epoch});
    push_change(group);
    if (client_->is_run_stopping()) return;
  }
}

/// Waits for what has become of the last push: the optimizer's state goes on from it only where it was accepted.
void Worker::push_change(const Range& group) {
  if (!client_->was_accepted()) local_->clear();
  const Stopwatch watch;
  const bool is_own = local_->has_weights();
  if (!is_own) client_->pull(pulled_, running_, -1);
  start_push(*replica_, *local_, pulled_, running_);
  parallel::CommitFacts facts;
  facts.batch = group.begin;
  facts.batches = group.size();
  facts.is_fresh = local_->steps == 0;
  for (std::int64_t step = group.begin; step < group.end && facts.is_finite; ++step) {
    const dataset::Batch& batch = share_of(step);
    const double lr = scheduled_rate(job_.config(), schedule_, step);
    const StepResult result = make_local_step(*replica_, batch, step, lr, *local_);
    add(facts, result.sums);
    facts.is_finite = result.is_finite;
    const auto sums = index_sums(batch.indices);
    for (std::size_t i = 0; i < sums.size(); ++i) facts.index_sums[i] += sums[i];
  }
  if (is_own) client_->pull(pulled_, running_, -1);
  finish_push(*replica_, *local_, pulled_, job_.config().parallel.elastic, change_);
  copy_running(*replica_->store, new_running_);
  lag(watch.elapsed_s());
  client_->push(0, {0, job_.shards.parameters}, change_);
  client_->push(0, {job_.shards.parameters, job_.shards.elements()}, new_running_);
  facts.compute_s = watch.elapsed_s();
  client_->commit(facts);
}

/// The next share will most likely be the same of the next batch.
void Worker::take_share(const parallel::Task& task) {
  become(task.replicas, task.replica);
  const std::int64_t step = task.batches.begin;
  if (ordered_.empty() || ordered_.back() != step) order(step);
  if (step + 1 < data_.total_steps) order(step + 1);
  compute(share_of(step), step, task.version);
}

void Worker::order(std::int64_t step) {
  const std::int64_t size = job_.config().data.batch;
  queue_->order({data_.counter_of(step, size), data_.counter_of(step + 1, size)},
                [plan = replica_->plan](std::int64_t rows) { return plan.rows_of_replica(plan.replica, rows); });
  ordered_.push_back(step);
}

/// This worker's rows of an ordered step; others that were ordered before it are not wanted any more.
const dataset::Batch& Worker::share_of(std::int64_t step) {
  for (;;) {
    MUSTER_CHECK(!ordered_.empty(), "step {} was not ordered", step);
    const std::int64_t next = ordered_.front();
    ordered_.pop_front();
    const dataset::Batch* batch = queue_->next();
    MUSTER_CHECK(batch != nullptr, "no batch for step {}", next);
    if (next == step) return *batch;
  }
}

void Worker::compute(const dataset::Batch& batch, std::int64_t step, std::int64_t at_least) {
  const Stopwatch watch;
  client_->pull(replica_->store->weights(), running_, at_least);
  set_running(*replica_->store, running_);
  const StepResult result = replica_->step->gradient(batch, step, false);
  replica_->step->update_running_values(step, batch.position.rows);  // all take part, whatever their losses are
  copy_running(*replica_->store, new_running_);
  lag(watch.elapsed_s());
  const bool is_lease = at_least < 0;
  if (is_lease && job_.sizes.keeps_pulled) client_->push_pulled(replica_->store->weights());
  if (replica_->plan.replica == 0) client_->push(0, {job_.shards.parameters, job_.shards.elements()}, new_running_);

  parallel::CommitFacts facts;
  facts.batch = step;
  add(facts, result.sums);
  facts.grad_scale = result.grad_scale;
  facts.is_finite = result.is_finite;
  facts.index_sums = index_sums(batch.indices);
  facts.compute_s = watch.elapsed_s();
  client_->commit(facts);
}

/// Sleeps as long as a slower machine would go on computing.
void Worker::lag(double compute_s) {
  constexpr double slice_s = 1e-3;
  const Deadline end("a slow worker", compute_s * (slowness_ - 1));
  while (!end.is_over()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(slice_s));
    client_->beat();
  }
}

void Worker::evaluate() {
  if (!replica_) become(1, 0);
  client_->pull_snapshot(replica_->store->weights(), running_);
  set_running(*replica_->store, running_);
  const EvalResult result = evaluator_->run(false, [this] {
    client_->beat();
    return client_->is_run_stopping();
  });
  parallel::CommitFacts facts;
  facts.rows = result.is_stopped ? 0 : result.samples;
  facts.loss_units = result.loss_units;
  facts.correct = result.correct;
  facts.top_k_correct = result.top_k_correct;
  facts.is_finite = result.is_finite;
  client_->report_result(facts);
}

}  // namespace

ExitCode run_worker(AsyncJob& job, RunData data) {
  Worker worker(job, std::move(data));
  worker.work();
  if (!worker.ends_clean()) job.session.set_ranks_lost();
  return ExitCode::done;
}

}  // namespace muster::train
