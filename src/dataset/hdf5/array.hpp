// One HDF5 dataset opened for reading samples: axis 0 is the sample. Contiguous, uncompressed, native-endian data are
// read straight through their file offset with pread; everything else by hyperslabs. Read-only, never locks.
#pragma once

#include "dataset/hdf5/check.hpp"

#include <muster/dataset/dataset.hpp>

#include <memory>
#include <string>
#include <vector>

namespace muster::dataset::hdf5 {

/// Opens a file read-only; Error(data) naming the file and why (absent, not HDF5, truncated ...).
File open_file(const std::string& path);

class Array {
 public:
  /// name: path of the dataset inside the file. Throws Error(data) listing what is there when it is missing.
  Array(const std::string& path, const File& file, const std::string& name);
  ~Array();
  Array(Array&&) noexcept;

  std::int64_t size() const { return size_; }
  const Shape& sample_shape() const { return sample_shape_; }
  DType dtype() const { return dtype_; }               ///< type that read delivers (as stored)
  const std::string& place() const { return place_; }  ///< "file.h5:/train/images"
  std::string describe() const;
  bool is_direct() const { return offset_ != HADDR_UNDEF; }
  Statistics statistics() const;

  /// Copies samples to out, one after the other, in the stored type.
  void read(std::span<const std::int64_t> indices, std::byte* out);
  /// Copies samples [first, first + count).
  void read_range(std::int64_t first, std::int64_t count, std::byte* out);

 private:
  void read_slab(std::int64_t first, std::int64_t count, std::byte* out);
  void read_direct(std::int64_t first, std::int64_t count, std::byte* out) const;

  std::string place_, layout_;
  DataSet set_;
  DType dtype_ = DType::u8;
  std::int64_t size_ = 0;
  Shape sample_shape_;
  std::size_t sample_bytes_ = 0;
  haddr_t offset_ = HADDR_UNDEF;
  int descriptor_ = -1;
};

/// The memory type of HDF5 for a DType.
hid_t native_type(DType dtype);
/// Paths of all datasets in a file.
std::vector<std::string> list_datasets(const File& file);

}  // namespace muster::dataset::hdf5
