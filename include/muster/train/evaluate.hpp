// Evaluation: the test split in index order, in micro-batches of a size that does not depend on the rank count, sums in
// integers, so that every rank count prints the same digits.
#pragma once

#include <muster/comm/communicator.hpp>
#include <muster/parallel/grid.hpp>
#include <muster/train/inference.hpp>

#include <functional>
#include <vector>

namespace muster::train {

struct EvalResult {
  std::int64_t samples = 0;
  double loss = 0;      ///< mean over the samples
  double accuracy = 0;  ///< class labels only, else 0
  double top_k_accuracy = 0;
  std::int64_t loss_units = 0, correct = 0, top_k_correct = 0;  ///< the sums behind them (model::loss_unit)
  std::vector<std::int64_t> confusion;  ///< [classes, classes] row = label, column = prediction; only if asked for
  bool is_finite = true;
  bool is_stopped = false;  ///< a stop was requested on some rank before the end: the figures are partial
};

class Evaluator {
 public:
  Evaluator(const Config& config, const model::Network& network, device::Backend& backend, model::ParameterStore& store,
            comm::Communicator& data, int threads);
  /// Through a pipeline: the network is this rank's stage, the split is shared out over the replicas of the grid.
  /// ranks: all of it.
  Evaluator(const Config& config, const model::Network& network, device::Backend& backend, model::ParameterStore& store,
            comm::Communicator& ranks, parallel::Grid& grid, int threads);
  /// Compiles for a test split of so many samples before the first evaluation; lent: as Inference::prepare(). Returns
  /// the bytes it has allocated. Not collective.
  std::size_t prepare(std::int64_t samples, const model::ProgramMemory& lent);
  /// Collective. Opens config.data.test (which must be set). is_over: asked after every batch; may be empty;
  /// true, on a group of one rank only: what follows is left out, as at a signal.
  EvalResult run(bool wants_confusion, const std::function<bool()>& is_over = {});

 private:
  const Config& config_;
  const model::Network& network_;
  comm::Communicator& ranks_;
  parallel::GridPlace place_;
  parallel::StageLinks alone_;
  parallel::StageLinks& stages_;
  Inference inference_;
};

}  // namespace muster::train
