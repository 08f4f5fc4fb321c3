// Writing converted samples to one HDF5 file that is complete or absent: everything goes to a temporary file, which
// close() renames. Implemented in hdf5/convert_writer.cpp. Sample data may come in pieces; mean and standard deviation
// per channel are summed on the way (values scaled to [0, 1] for uint8) and stored as attributes of the inputs.
#pragma once

#include <muster/base/error.hpp>
#include <muster/dataset/convert.hpp>
#include <muster/tensor/dtype.hpp>
#include <muster/tensor/shape.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::dataset {

class ConvertWriter {
 public:
  /// samples: in all; input/target types and shapes of one sample.
  ConvertWriter(const ConvertOptions& options, std::int64_t samples, DType input_type, const Shape& input_shape,
                DType target_type, const Shape& target_shape);
  ~ConvertWriter();

  /// The next samples' inputs (plain, input_type).
  void add_inputs(std::span<const std::byte> values);
  /// The next samples' targets (plain, target_type).
  void add_targets(std::span<const std::byte> values);
  /// Stores the statistics, checks that all samples came, renames. Returns the line that convert() reports.
  std::string close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::dataset
