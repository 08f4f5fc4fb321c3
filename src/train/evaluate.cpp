#include <muster/train/evaluate.hpp>

#include <muster/train/signals.hpp>

#include <algorithm>

namespace muster::train {
namespace {

constexpr std::int64_t batches_between_stop_polls = 16;

/// Row of the largest output of each sample, ties to the lower class.
void count_confusion(const std::vector<float>& output, std::span<const std::int32_t> labels, std::int64_t classes,
                     std::vector<std::int64_t>& confusion) {
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const float* row = output.data() + static_cast<std::int64_t>(r) * classes;
    const std::int64_t predicted = std::max_element(row, row + classes) - row;
    ++confusion[static_cast<std::size_t>(labels[r] * classes + predicted)];
  }
}

}  // namespace

Evaluator::Evaluator(const Config& config, const model::Network& network, device::Backend& backend,
                     model::ParameterStore& store, comm::Communicator& data, int threads)
    : config_(config),
      network_(network),
      ranks_(data),
      place_{data.size(), data.rank()},
      stages_(alone_),
      inference_(config, network, backend, store, threads) {}

Evaluator::Evaluator(const Config& config, const model::Network& network, device::Backend& backend,
                     model::ParameterStore& store, comm::Communicator& ranks, parallel::Grid& grid, int threads)
    : config_(config),
      network_(network),
      ranks_(ranks),
      place_(grid.place()),
      stages_(grid.links()),
      inference_(config, network, backend, store, threads) {}

std::size_t Evaluator::prepare(std::int64_t samples, const model::ProgramMemory& lent) {
  inference_.prepare(samples, lent);
  return inference_.arena_bytes();
}

EvalResult Evaluator::run(bool wants_confusion, const std::function<bool()>& is_over) {
  const bool has_labels = network_.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  const std::int64_t classes = has_labels ? network_.classes() : 0;
  const auto queue =
      inference_.open(dataset::open_test(config_.data, config_.run.seed), place_.replica, place_.replicas, stages_);

  EvalResult result;
  if (wants_confusion) result.confusion.assign(static_cast<std::size_t>(classes * classes), 0);
  std::vector<std::int64_t> sums(6, 0);  // rows, loss units, correct, top-k, not finite, stop
  std::vector<float> output;
  std::int64_t batches = 0;
  const auto add = [&](model::Program& p, const dataset::Batch& batch) {
    const model::MicroBatchResult part = p.loss(inference_.context_of(batch));
    sums[0] += part.rows;
    sums[1] += part.loss_units;
    sums[2] += part.correct;
    sums[3] += part.top_k_correct;
    sums[4] += part.is_finite ? 0 : 1;
    if (!wants_confusion || !has_labels) return;
    output.resize(static_cast<std::size_t>(batch.rows.size() * classes));
    p.read_output(output.data());
    count_confusion(output,
                    {static_cast<const std::int32_t*>(batch.targets), static_cast<std::size_t>(batch.rows.size())},
                    classes, result.confusion);
  };
  while (const dataset::Batch* batch = queue->next()) {
    if (!batch->rows.empty()) {
      model::Program& p = inference_.forward(*batch, stages_);
      if (stages_.is_last()) add(p, *batch);
    }
    if (is_over && is_over()) {
      result.is_stopped = true;
      break;
    }
    if (++batches % batches_between_stop_polls == 0) {
      std::int64_t stop = is_stop_requested() ? 1 : 0;
      ranks_.all_reduce(std::span(&stop, 1), comm::Reduction::max, "stop poll of the evaluation");
      if (stop != 0) {
        result.is_stopped = true;
        break;
      }
    }
  }
  stages_.finish();
  ranks_.all_reduce(sums, comm::Reduction::sum, "sums of the evaluation");
  if (wants_confusion) ranks_.all_reduce(result.confusion, comm::Reduction::sum, "confusion matrix");
  result.samples = sums[0];
  result.loss_units = sums[1];
  result.correct = sums[2];
  result.top_k_correct = sums[3];
  result.is_finite = sums[4] == 0;
  const double rows = static_cast<double>(std::max<std::int64_t>(sums[0], 1));
  result.loss = static_cast<double>(sums[1]) * model::loss_unit / rows;
  const double labels = rows * static_cast<double>(network_.targets_per_sample());
  result.accuracy = static_cast<double>(sums[2]) / labels;
  result.top_k_accuracy = static_cast<double>(sums[3]) / labels;
  return result;
}

}  // namespace muster::train
