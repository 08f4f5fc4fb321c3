// Which dataset an option struct means: synthetic or HDF5; and whether its labels fit the network.
#include "dataset/hdf5/hdf5_dataset.hpp"
#include "dataset/hdf5/token_file.hpp"
#include "dataset/synthetic.hpp"

#include <muster/base/error.hpp>
#include <muster/dataset/dataset.hpp>

#include <algorithm>
#include <cmath>

namespace muster::dataset {
namespace {

std::unique_ptr<Dataset> open_files(const SourceOptions& source, const std::string& section) {
  if (!source.tokens.empty()) return hdf5::open_tokens(source, section);
  return hdf5::open_dataset(source, section, true);
}

}  // namespace

std::unique_ptr<Dataset> open_train(const DataOptions& options, std::uint64_t seed) {
  if (options.synthetic.samples > 0) return make_synthetic(options.synthetic, options.synthetic.samples, seed, 1);
  return open_files(options.train, "data.train");
}

std::unique_ptr<Dataset> open_test(const DataOptions& options, std::uint64_t seed) {
  if (options.synthetic.samples > 0) {
    if (options.synthetic.test_samples == 0) return nullptr;
    return make_synthetic(options.synthetic, options.synthetic.test_samples, seed, 2);
  }
  if (!options.test.is_set()) return nullptr;
  return open_files(options.test, "data.test");
}

std::unique_ptr<Dataset> open_inputs(const SourceOptions& source) { return hdf5::open_dataset(source, "input", false); }

std::string read_vocabulary(const DataOptions& options) {
  if (options.train.tokens.empty())
    fail(ExitCode::usage, "expected a run trained on text (data.train.tokens), found other data");
  return hdf5::read_vocabulary(options.train.files[0]);
}

void check_labels(Dataset& data, std::int64_t classes) {
  if (!data.has_class_labels())
    fail(ExitCode::data,
         "{}: softmax_cross_entropy expects one integer label per sample, found other targets; use another loss or "
         "integer labels",
         data.describe());
  if (data.size() == 0) fail(ExitCode::data, "{}: expected samples, found none", data.describe());
  constexpr std::int64_t block = 4096;
  std::vector<std::int64_t> indices;
  std::vector<std::int32_t> labels;
  const std::int64_t step = data.label_stride(), per_sample = data.target_shape().elements();
  for (std::int64_t first = 0; first < data.size(); first += block * step) {
    indices.clear();
    for (std::int64_t i = first; i < std::min(first + block * step, data.size()); i += step) indices.push_back(i);
    if (first + block * step >= data.size() && indices.back() + 1 < data.size()) indices.push_back(data.size() - 1);
    labels.resize(indices.size() * static_cast<std::size_t>(per_sample));
    data.read(indices, nullptr, labels.data());
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] < 0 || labels[i] >= classes)
        fail(ExitCode::data,
             "{}: sample {} has label {}, expected 0 <= label < {} (the outputs of the network's last layer)",
             data.describe(), indices[i / static_cast<std::size_t>(per_sample)], labels[i], classes);
  }
}

void check_targets(Dataset& data, bool are_probabilities) {
  if (data.has_class_labels()) return;
  constexpr std::int64_t block = 1024;
  const std::int64_t width = data.target_shape().elements();
  std::vector<std::int64_t> indices;
  std::vector<float> targets;
  for (std::int64_t first = 0; first < data.size(); first += block) {
    const std::int64_t count = std::min(block, data.size() - first);
    indices.resize(static_cast<std::size_t>(count));
    targets.resize(static_cast<std::size_t>(count * width));
    for (std::int64_t i = 0; i < count; ++i) indices[static_cast<std::size_t>(i)] = first + i;
    data.read(indices, nullptr, targets.data());
    for (std::int64_t i = 0; i < count * width; ++i) {
      const float target = targets[static_cast<std::size_t>(i)];
      const bool is_good = are_probabilities ? target >= 0 && target <= 1 : std::isfinite(target);
      if (!is_good)
        fail(ExitCode::data, "{}: target {} of sample {} is {}, expected {}", data.describe(), i % width,
             first + i / width, target,
             are_probabilities ? "0 <= target <= 1 for binary_cross_entropy" : "a finite number");
    }
  }
}

}  // namespace muster::dataset
