// A small HDF5 container for what checkpoints keep beside the weights: named float/double/int arrays and attributes.
// Hides hdf5.h; used by train/checkpoint. Files are written by one process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::dataset {

class StoreWriter {
 public:
  /// Creates the file (truncates an existing one). Throws Error(checkpoint).
  explicit StoreWriter(const std::filesystem::path& path);
  ~StoreWriter();
  void put(const std::string& name, std::span<const float> values);
  void put(const std::string& name, std::span<const double> values);
  void put(const std::string& name, std::span<const std::int64_t> values);
  void put(const std::string& name, const std::string& text);
  /// Flushes and closes; throws on a full disk. Without close() the destructor closes silently.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class StoreReader {
 public:
  explicit StoreReader(const std::filesystem::path& path);
  ~StoreReader();
  bool has(const std::string& name) const;
  std::vector<float> floats(const std::string& name) const;
  std::vector<double> doubles(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::string text(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::dataset
