// Which dataset an option struct means: synthetic or HDF5; and whether its labels fit the network.
#include "dataset/hdf5/hdf5_dataset.hpp"
#include "dataset/synthetic.hpp"

#include <muster/base/error.hpp>
#include <muster/dataset/dataset.hpp>

#include <algorithm>
#include <cmath>

namespace muster::dataset {

std::unique_ptr<Dataset> open_train(const DataOptions& options, std::uint64_t seed) {
  if (options.synthetic.samples > 0) return make_synthetic(options.synthetic, options.synthetic.samples, seed, 1);
  return hdf5::open_dataset(options.train, "data.train", true);
}

std::unique_ptr<Dataset> open_test(const DataOptions& options, std::uint64_t seed) {
  if (options.synthetic.samples > 0) {
    if (options.synthetic.test_samples == 0) return nullptr;
    return make_synthetic(options.synthetic, options.synthetic.test_samples, seed, 2);
  }
  if (!options.test.is_set()) return nullptr;
  return hdf5::open_dataset(options.test, "data.test", true);
}

std::unique_ptr<Dataset> open_inputs(const SourceOptions& source) { return hdf5::open_dataset(source, "input", false); }

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
  for (std::int64_t first = 0; first < data.size(); first += block) {
    const std::int64_t count = std::min(block, data.size() - first);
    indices.resize(static_cast<std::size_t>(count));
    labels.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) indices[static_cast<std::size_t>(i)] = first + i;
    data.read(indices, nullptr, labels.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t label = labels[static_cast<std::size_t>(i)];
      if (label < 0 || label >= classes)
        fail(ExitCode::data,
             "{}: sample {} has label {}, expected 0 <= label < {} (the outputs of the network's last layer)",
             data.describe(), first + i, label, classes);
    }
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
