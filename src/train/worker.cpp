// A worker of the parameter-server strategy: takes a lease, and for each of its batches
//
//   pull      the newest weights and running values
//   gradient  forward, loss, backward: the same step as everywhere (step.cpp), of one replica that has the whole batch
//   push      the gradient and the new running values to all servers, then one word to the coordinator: committed
//
// Nothing is waited for but work, weights, and the slots of the commit before the last.
#include "train/async.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/parallel/server/client.hpp>
#include <muster/train/audit.hpp>
#include <muster/train/evaluate.hpp>
#include <muster/train/signals.hpp>

#include <chrono>
#include <cstdlib>
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

class Worker {
 public:
  Worker(AsyncJob& job, RunData data);
  void work();
  bool ends_clean() { return client_->ends_clean(); }

 private:
  void train(const Range& batches);
  bool train_batch(const dataset::Batch& batch, std::int64_t step);
  void evaluate();
  void lag(double compute_s);

  AsyncJob& job_;
  RunData data_;
  std::unique_ptr<comm::Communicator> alone_;  // the data-parallel group of one
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<parallel::ServerClient> client_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<dataset::BatchQueue> queue_;
  std::vector<float> running_;
  double slowness_;
};

Worker::Worker(AsyncJob& job, RunData data)
    : job_(job), data_(std::move(data)), slowness_(slowness(job.roles.worker_of(job.world().rank()))) {
  const Config& config = job_.config();
  const int rank = job_.world().rank();
  alone_ = job_.world().split(rank, 0, "alone");
  start_together(job_, data_, [this]() -> TrainableModel& {
    replica_ =
        std::make_unique<Replica>(job_.config(), *alone_, data_.size, job_.threads(), [this] { client_->beat(); });
    return *replica_;
  });
  running_.resize(static_cast<std::size_t>(job_.shards.running));
  dataset::QueueOptions options = queue_options(config);
  options.rows_of = [](std::int64_t rows) { return Range{0, rows}; };
  queue_ = std::make_unique<dataset::BatchQueue>(std::move(data_.train), options);
  evaluator_ = std::make_unique<Evaluator>(config, replica_->network, *replica_->backend, *replica_->store, *alone_,
                                           replica_->threads);
  job_.world().barrier("start of the servers");
  client_ = std::make_unique<parallel::ServerClient>(
      *job_.window, job_.roles, job_.shards, static_cast<int>(replica_->optimizer->slots().size()),
      job_.roles.worker_of(rank), [] { return is_stop_requested(); },
      parallel::ClientOptions{config.parallel.heartbeat_deadline_s, config.parallel.heartbeat_deadline_s / 20});
}

void Worker::work() {
  for (;;) {
    const parallel::Task task = client_->next_task();
    switch (task.kind) {
      case parallel::Task::Kind::train:
        train(task.batches);
        break;
      case parallel::Task::Kind::evaluate:
        evaluate();
        break;
      case parallel::Task::Kind::leave:
        return;
    }
  }
}

/// A lease. Once this worker is declared gone the rest of it is somebody else's; its batches are read and thrown away.
void Worker::train(const Range& batches) {
  const std::int64_t size = job_.config().data.batch;
  queue_->order({data_.counter_of(batches.begin, size), data_.counter_of(batches.end, size)});
  bool is_mine = true;
  for (std::int64_t step = batches.begin; step < batches.end; ++step) {
    const dataset::Batch* batch = queue_->next();
    MUSTER_CHECK(batch != nullptr, "no batch for step {}", step);
    is_mine = is_mine && train_batch(*batch, step);
  }
}

bool Worker::train_batch(const dataset::Batch& batch, std::int64_t step) {
  const Stopwatch watch;
  client_->pull(replica_->store->weights(), running_);
  set_running(*replica_->store, running_);
  const StepResult result = replica_->step->gradient(batch, step, false);
  if (result.is_finite) replica_->step->update_running_values(step, batch.position.rows);
  copy_running(*replica_->store, running_);
  lag(watch.elapsed_s());

  parallel::CommitFacts facts;
  facts.batch = step;
  facts.rows = result.sums.rows;
  facts.loss_units = result.sums.loss_units;
  facts.correct = result.sums.correct;
  facts.top_k_correct = result.sums.top_k_correct;
  facts.grad_scale = result.grad_scale;
  facts.is_finite = result.is_finite;
  facts.index_sums = index_sums(batch.indices);
  const auto elements = static_cast<std::size_t>(replica_->store->elements());
  if (!client_->push(replica_->reducer->result().first(elements), running_)) return false;
  facts.compute_s = watch.elapsed_s();
  client_->commit(facts);
  return true;
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
  client_->pull_snapshot(replica_->store->weights(), running_);
  set_running(*replica_->store, running_);
  const EvalResult result = evaluator_->run(false, [this] { client_->beat(); });
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
