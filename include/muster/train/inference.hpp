// Applying a network to samples in index order: what evaluation and prediction share. One compiled program per
// micro-batch size that occurs; the size comes from the config, never from the rank count.
#pragma once

#include <muster/dataset/batch_queue.hpp>
#include <muster/model/program.hpp>
#include <muster/parallel/pipeline/stage_links.hpp>
#include <muster/train/options.hpp>

#include <map>
#include <memory>

namespace muster::train {

/// Rows of a micro-batch of evaluation: data.test_batch, else those of a micro-batch of training on one rank.
std::int64_t test_batch_rows(const Config& config);

class Inference {
 public:
  /// Refers to all of these.
  Inference(const Config& config, const model::Network& network, device::Backend& backend, model::ParameterStore& store,
            int threads);
  /// Makes the programs for a split of so many samples before the first batch comes. lent: memory that nobody else uses
  /// during evaluations; what does not fit there is allocated.
  void prepare(std::int64_t samples, const model::ProgramMemory& lent = {});
  /// Allocated by prepare().
  std::size_t arena_bytes() const { return (arena_ ? arena_->bytes() : 0) + (scratch_ ? scratch_->bytes() : 0); }
  /// Reads ahead in index order; of every `ranks` micro-batches this rank gets one (empty rows at the end). stages: of
  /// a pipeline the first reads inputs, the last targets.
  std::unique_ptr<dataset::BatchQueue> open(std::unique_ptr<dataset::Dataset> data, int rank, int ranks,
                                            const parallel::StageLinks& stages = {}) const;
  /// Where the batch's samples stand, for a program's forward and loss.
  device::RunContext context_of(const dataset::Batch& batch) const;
  /// Runs the batch (rows not empty; targets null where there are none) through the network. The program holds its
  /// output, and with targets its loss, until the next call.
  model::Program& forward(const dataset::Batch& batch);
  /// The same for one stage of a pipeline: what enters and leaves it goes over `stages`.
  model::Program& forward(const dataset::Batch& batch, parallel::StageLinks& stages);

 private:
  std::unique_ptr<model::Program> make(std::int64_t rows) const;
  model::Program& program(std::int64_t rows);

  const Config& config_;
  const model::Network& network_;
  device::Backend& backend_;
  model::ParameterStore& store_;
  int threads_;
  std::unique_ptr<device::Buffer> arena_, scratch_;  // of prepare(), where nothing lent was large enough
  std::map<std::int64_t, std::unique_ptr<model::Program>> programs_;  // by rows
};

}  // namespace muster::train
