// A dataset: samples by index. Implementations: HDF5 files (hdf5/), synthetic, a range of another dataset. Opened by
// every rank for itself, read-only and without locks; used by one thread (the prefetch thread) after construction.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/dataset/options.hpp>
#include <muster/tensor/dtype.hpp>
#include <muster/tensor/shape.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::dataset {

/// Mean and standard deviation per channel of the scaled inputs, as stored by `convert`; empty where absent.
struct Statistics {
  std::vector<double> mean, std;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const Shape& input_shape() const = 0;   ///< of one sample
  virtual DType input_dtype() const = 0;          ///< as stored; read() delivers this type
  virtual const Shape& target_shape() const = 0;  ///< of one sample; rank 0 for class labels
  virtual bool has_class_labels() const = 0;      ///< int32 targets, else float32
  virtual Statistics statistics() const = 0;
  /// Where samples overlap: every label is one of the samples 0, k, 2k, ... or of the last one.
  virtual std::int64_t label_stride() const { return 1; }
  virtual std::string describe() const = 0;  ///< "data/fashion.h5:/train/images uint8 [60000, 1, 28, 28] contiguous"

  /// Copies samples indices[i] to inputs + i * sample bytes (stored type, plain) and their targets (int32 or float32)
  /// to targets + i * target bytes. Throws Error(data) naming file, dataset and index. inputs or targets may be null:
  /// not wanted.
  virtual void read(std::span<const std::int64_t> indices, void* inputs, void* targets) = 0;
};

/// Opens the training or test split of the config. Checks that files exist, shapes and types of all files agree,
/// inputs and targets have equal lengths, the range lies inside and is not empty. Throws Error(data).
std::unique_ptr<Dataset> open_train(const DataOptions& options, std::uint64_t seed);
/// Null where no test split is configured.
std::unique_ptr<Dataset> open_test(const DataOptions& options, std::uint64_t seed);

/// The vocabulary that `muster convert text` stored with the first file of the training split; Error(data) without.
std::string read_vocabulary(const DataOptions& options);

/// Opens files for their inputs alone (prediction): targets need not exist.
std::unique_ptr<Dataset> open_inputs(const SourceOptions& source);

/// Reads all class labels and checks 0 <= label < classes; throws Error(data) naming file, index and value.
void check_labels(Dataset& data, std::int64_t classes);
/// Throws Error(data) that names the sample unless all float targets are finite or, as probabilities, in [0, 1].
void check_targets(Dataset& data, bool are_probabilities);

}  // namespace muster::dataset
