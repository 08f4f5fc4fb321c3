// One training step. Read src/train/step.cpp first: it is the textbook.
#pragma once

#include <muster/dataset/batch_queue.hpp>
#include <muster/optim/optimizer.hpp>
#include <muster/parallel/data/reducer.hpp>
#include <muster/parallel/data/shard_gather.hpp>
#include <muster/parallel/pipeline/stage_links.hpp>
#include <muster/parallel/pipeline/tied_gradients.hpp>
#include <muster/train/gradients.hpp>
#include <muster/train/programs.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace muster::train {

/// Room at the end of the gradient arena for words that travel with the gradients: they are summed over all replicas
/// like everything else, so every rank learns of a stop request or a bad loss in the same step, without a message of
/// its own.
inline constexpr std::int64_t control_elements = 16;

/// What a step works with; owned by the caller (train/assemble).
struct StepParts {
  ReplicaPrograms& programs;
  model::ParameterStore& store;
  parallel::GradientReducer& reducer;
  parallel::GrainAccumulator& accumulator;
  Gradients& gradients;
  parallel::StatisticSum& statistics;
  parallel::StageLinks& stages;
  parallel::TiedGradients* tied = nullptr;  ///< of weights that other stages hold too; null: there are none
  const optim::Optimizer& optimizer;
  std::span<const std::span<float>> optimizer_state;  ///< of the elements in `shard`
  std::span<const optim::ParamRun> runs;              ///< what this replica updates, relative to shard.begin
  Range shard;                                        ///< elements of the arena that this replica updates
  parallel::ShardGather* gather = nullptr;            ///< brings the others' updates; null: there are none
  parallel::GrainPlan plan;
  std::uint64_t seed = 0;
  double clip_norm = 0;
  int threads = 1;
  std::function<void()> between_ops;  ///< called between the ops of the backward pass; may be empty
};

struct StepResult {
  model::MicroBatchResult sums;    ///< of this replica's rows, on every stage
  bool is_stop_requested = false;  ///< by any rank
  bool is_finite = true;           ///< every row's loss on every rank; when false nothing was updated
  double grad_norm = 0;            ///< only when clipping
  double grad_scale = 1;           ///< what clipping multiplies the gradient by
  parallel::ReduceTimes reduce;
};

class Step {
 public:
  explicit Step(const StepParts& parts);

  /// Trains on one global batch. step: 0-based; lr: of this step. Throws what communication throws.
  StepResult run(const dataset::Batch& batch, std::int64_t step, double lr, bool requests_stop);

  /// The first half of run(): the gradient of the global batch, summed over the replicas, in the reducer's result;
  /// weights and running values are as before. For those whose weights somebody else updates (parameter servers).
  StepResult gradient(const dataset::Batch& batch, std::int64_t step, bool requests_stop);
  /// Moves the running values of batch norm on by the batch of the last gradient().
  void update_running_values(std::int64_t step, std::int64_t global_rows);

 private:
  void begin(const dataset::Batch& batch, BatchPlan& plan, std::int64_t step);
  void forward(Wave& wave);
  void send_values(Wave& wave);
  void loss(Wave& wave, StepResult& result);
  void backward(Wave& wave, const Wave* next, bool is_last_wave);
  void receive_gradients(Wave& wave, const Wave* next);
  void send_gradients(Wave& wave);
  void read_control_words(StepResult& result);
  double squared_norm() const;
  void update(std::int64_t step, double lr, StepResult& result);

  void load(const dataset::Batch& batch, const BatchPlan& plan, Wave& wave, const Wave* next);
  void sum_statistics(Wave& wave, const std::vector<model::Segment>& (model::Program::*segments)() const,
                      std::size_t index);
  void add_gradient(const MicroBatch& micro, Range slice, bool is_last_segment);
  void keep_deferred_statistics(const MicroBatch& micro);
  void write_control_words(const MicroBatch& micro);

  StepParts parts_;
  std::function<void()> make_progress_;
  std::function<void()> move_messages_;            // of the forward pass; empty: one stage
  std::vector<double> grain_statistics_, totals_;  // of the segment being summed: per grain, and over all
  std::vector<double> deferred_;                   // per grain
  bool requests_stop_ = false;
  bool is_local_loss_finite_ = true;
};

}  // namespace muster::train
