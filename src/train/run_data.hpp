// The data of a run and what follows from its size: how many steps, when to log, evaluate and save.
#pragma once

#include <muster/dataset/batch_queue.hpp>
#include <muster/dataset/dataset.hpp>
#include <muster/train/checkpoint.hpp>
#include <muster/train/options.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace muster::train {

struct RunData {
  std::unique_ptr<dataset::Dataset> train;
  std::int64_t size = 0;  ///< samples of an epoch
  std::int64_t steps_per_epoch = 0, total_steps = 0, total_samples = 0;
  std::int64_t log_steps = 0, eval_steps = 0, checkpoint_steps = 0;  ///< between two of them; 0: never
  std::int64_t test_size = 0;                                        ///< samples of the test split
  bool has_labels = false, has_test = false;

  std::int64_t first_step_of_epoch(std::int64_t step) const { return step / steps_per_epoch * steps_per_epoch; }
  /// Global sample counter at which step `step` begins.
  std::int64_t counter_of(std::int64_t step, std::int64_t batch) const {
    return step / steps_per_epoch * size + std::min(step % steps_per_epoch * batch, size);
  }
};

/// Opens the splits and checks them against the network. replicas: each must find a sample. checks_labels: on one rank
/// is enough. Throws Error(data).
RunData open_run_data(const Config& config, int replicas, bool checks_labels);

/// Check sums (train/audit) of the samples of a step, all ranks together.
std::array<std::uint64_t, 3> index_sums_of_step(const Config& config, const RunData& data, std::int64_t step);

/// What decides which samples a step gets, as text for checkpoints: counters mean nothing under another order.
std::string sample_order(const Config& config, const RunData& data);
/// Throws Error(usage) when the checkpoint was made under another order of samples, or lies beyond the run's end.
void check_same_run(const CheckpointState& state, const Config& config, const RunData& data);

/// What every input queue of the run has in common.
dataset::QueueOptions queue_options(const Config& config);

}  // namespace muster::train
