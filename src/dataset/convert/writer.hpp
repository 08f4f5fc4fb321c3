// Writing converted samples to one HDF5 file that is complete or absent: everything goes to a temporary file, which close()
// renames. Sample data may come in pieces; mean and standard deviation per channel are summed on the way (values scaled
// to [0, 1] for uint8) and stored as attributes of the inputs.
#pragma once

#include "dataset/hdf5/check.hpp"

#include <muster/dataset/convert.hpp>
#include <muster/tensor/dtype.hpp>
#include <muster/tensor/shape.hpp>

#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace muster::dataset {

class ConvertWriter {
 public:
  /// samples: in all; input/target types and shapes of one sample.
  ConvertWriter(const ConvertOptions& options, std::int64_t samples, DType input_type, const Shape& input_shape, DType target_type,
                const Shape& target_shape);
  ~ConvertWriter();

  /// The next samples' inputs (plain, input_type).
  void add_inputs(std::span<const std::byte> values);
  /// The next samples' targets (plain, target_type).
  void add_targets(std::span<const std::byte> values);
  /// Stores the statistics, checks that all samples came, renames. Returns the line that convert() reports.
  std::string close();

 private:
  void add(hdf5::DataSet& set, DType type, const Shape& shape, std::int64_t& done, std::span<const std::byte> values);
  void sum(std::span<const std::byte> values);
  void write_attribute(const char* name, const std::vector<double>& values);

  ConvertOptions options_;
  std::string temporary_;
  std::int64_t samples_;
  DType input_type_, target_type_;
  Shape input_shape_, target_shape_;
  hdf5::File file_;
  hdf5::DataSet inputs_, targets_;
  std::int64_t inputs_done_ = 0, targets_done_ = 0;
  std::vector<double> sums_, squares_;  // per channel
  bool is_closed_ = false;
};

}  // namespace muster::dataset
