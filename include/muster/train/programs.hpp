// All compiled programs of one replica: for every global batch size that occurs (full and tail) the micro-batches it is
// run in. Made once before training; a step only looks its batch plan up.
#pragma once

#include <muster/model/program.hpp>
#include <muster/parallel/data/grains.hpp>
#include <muster/parallel/pipeline/schedule.hpp>

#include <map>
#include <memory>
#include <vector>

namespace muster::train {

/// One grain of the global batch on this replica.
struct MicroBatch {
  std::int64_t grain = 0;
  Range rows;                         ///< of the global batch; may be empty
  model::Program* program = nullptr;  ///< null when rows is empty
  device::RunContext context;         ///< filled in by the step
};

/// Micro-batches that go through the network together, segment by segment.
using Wave = std::vector<MicroBatch>;

struct BatchPlan {
  Range rows;  ///< this replica's rows of the global batch
  std::vector<Wave> waves;
  std::vector<parallel::PipelineStep> schedule;  ///< of this stage, over the waves
};

/// Which stage of the pipeline the programs are; one stage: each wave forward and backward in turn.
struct StageOfPipeline {
  int stages = 1;
  int stage = 0;
  parallel::PipelineKind kind = parallel::PipelineKind::one_forward_one_backward;
};

/// Where samples of a batch need each other (global batch norm) all micro-batches form one wave, each with its own
/// activations; otherwise each is a wave by itself and they share the memory of as many as are in
/// flight: one, but in a pipeline. Micro-batch m works in place m % (in flight), whose arena the programs of all sizes
/// that come there share, as all programs share the ops' scratch.
///
///   2 in flight, rows 3 2 3 2 and a tail of 1 1 1:   place 0: rows 3, 3, 1, 1   one arena for 3
///                                                    place 1: rows 2, 2, 1      one arena for 2
class ReplicaPrograms {
 public:
  /// The first program, for the full batch. layouts: of the parameters; empty: those that the plan's largest grain
  /// wants, whichever replica owns it. Ranks exchange flat slices, so all must lay them out alike.
  ReplicaPrograms(const model::Network& network, device::Backend& backend, const parallel::GrainPlan& plan,
                  const model::ProgramOptions& options, std::int64_t batch, std::vector<device::TensorDesc> layouts,
                  const StageOfPipeline& pipeline = {});
  const std::vector<device::TensorDesc>& param_descs() const { return lead_->param_descs(); }

  /// Makes the programs for all batch sizes and the memory of all, and binds them.
  void bind(model::ParameterStore& store, std::span<float> gradients, const std::vector<std::int64_t>& batch_sizes);
  /// The plan for a global batch of that size; must be one of those given to bind.
  BatchPlan& plan_for(std::int64_t batch);
  /// The program of the full batch: its segments are everybody's segments, and it carries the running values.
  model::Program& lead() { return *lead_; }
  /// Of all places together, and of the scratch.
  std::size_t arena_bytes() const;
  /// The largest place and the scratch, for others to work in between two steps.
  model::ProgramMemory idle_memory();
  std::int64_t input_elements() const { return network_.input.elements(); }  ///< floats per sample
  std::int64_t target_bytes() const;                                         ///< per sample

 private:
  /// Where micro-batches work one after the other.
  struct Place {
    std::map<std::int64_t, std::unique_ptr<model::Program>> programs;  // by rows
    std::unique_ptr<device::Buffer> arena;
  };
  bool is_one_wave() const { return network_.has_global_statistics(); }
  void add_plan(std::int64_t batch);
  model::Program& program(std::int64_t rows, std::size_t place);
  void bind_places();

  const model::Network& network_;
  device::Backend& backend_;
  parallel::GrainPlan plan_;
  model::ProgramOptions options_;
  StageOfPipeline pipeline_;
  model::ParameterStore* store_ = nullptr;
  std::span<float> gradients_;
  std::unique_ptr<model::Program> first_;  // until it has its place
  model::Program* lead_ = nullptr;
  std::vector<Place> places_;
  std::unique_ptr<device::Buffer> scratch_;
  std::map<std::int64_t, BatchPlan> plans_;  // by global batch size
};

}  // namespace muster::train
