#include <muster/train/evaluate.hpp>

#include <muster/dataset/batch_queue.hpp>
#include <muster/train/signals.hpp>

#include <algorithm>

namespace muster::train {
namespace {

constexpr std::int64_t batches_between_stop_polls = 16;

std::int64_t micro_batch_rows(const Config& config) {
  return config.data.test_batch > 0 ? config.data.test_batch : config.data.batch;
}

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
    : config_(config), network_(network), backend_(backend), store_(store), data_(data), threads_(threads) {}

model::Program& Evaluator::program(std::int64_t rows) {
  auto& slot = programs_[rows];
  if (!slot) {
    model::ProgramOptions options;
    options.rows = rows;
    options.is_training = false;
    options.is_deterministic = config_.run.reproducible == "bitwise";
    options.threads = threads_;
    slot = std::make_unique<model::Program>(network_, backend_, options, store_.descs());
    slot->bind(store_, {});
  }
  return *slot;
}

EvalResult Evaluator::run(bool wants_confusion, const std::function<void()>& between_batches) {
  auto dataset = dataset::open_test(config_.data, config_.run.seed);
  const bool has_labels = network_.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  const std::int64_t classes = has_labels ? network_.classes() : 0;
  const std::int64_t unit = micro_batch_rows(config_);
  const std::int64_t size = dataset->size();

  dataset::QueueOptions options;
  options.seed = config_.run.seed;
  options.batch = unit * data_.size();
  options.last_sample = size;
  options.depth = config_.data.prefetch;
  options.is_training = false;
  options.check_finite = config_.data.check_finite;
  options.transforms = config_.data.transforms;
  options.rows_of = [unit, rank = data_.rank()](std::int64_t rows) {
    return Range{std::min(rank * unit, rows), std::min((rank + 1) * unit, rows)};
  };
  dataset::BatchQueue queue(std::move(dataset), options);

  EvalResult result;
  if (wants_confusion) result.confusion.assign(static_cast<std::size_t>(classes * classes), 0);
  std::vector<std::int64_t> sums(6, 0);  // rows, loss units, correct, top-k, not finite, stop
  std::vector<float> output;
  std::int64_t batches = 0;
  while (const dataset::Batch* batch = queue.next()) {
    if (!batch->rows.empty()) {
      model::Program& p = program(batch->rows.size());
      const device::RunContext context{config_.run.seed, 0, batch->rows.begin, batch->rows.size()};
      p.load(batch->inputs, batch->targets);
      for (std::size_t s = 0; s < p.forward_segments().size(); ++s) p.forward(s, context);
      const model::MicroBatchResult part = p.loss(context);
      sums[0] += part.rows;
      sums[1] += part.loss_units;
      sums[2] += part.correct;
      sums[3] += part.top_k_correct;
      sums[4] += part.is_finite ? 0 : 1;
      if (wants_confusion && has_labels) {
        output.resize(static_cast<std::size_t>(batch->rows.size() * classes));
        p.read_output(output.data());
        count_confusion(
            output, {static_cast<const std::int32_t*>(batch->targets), static_cast<std::size_t>(batch->rows.size())},
            classes, result.confusion);
      }
    }
    if (between_batches) between_batches();
    if (++batches % batches_between_stop_polls == 0) {
      std::int64_t stop = is_stop_requested() ? 1 : 0;
      data_.all_reduce(std::span(&stop, 1), comm::Reduction::max, "stop poll of the evaluation");
      if (stop != 0) {
        result.is_stopped = true;
        break;
      }
    }
  }
  data_.all_reduce(sums, comm::Reduction::sum, "sums of the evaluation");
  if (wants_confusion) data_.all_reduce(result.confusion, comm::Reduction::sum, "confusion matrix");
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
