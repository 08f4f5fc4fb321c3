// An HDF5 file in the making: under a temporary name beside its own, which it takes when it is complete.
#pragma once

#include "dataset/hdf5/check.hpp"

#include <string>

namespace muster::dataset::hdf5 {

class NewFile {
 public:
  /// Creates PATH.tmp, empty or as a copy of PATH. Throws Error(data) with the system's reason.
  NewFile(const std::string& path, bool is_copy);
  ~NewFile();  ///< takes the temporary file away unless complete() was called
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  hid_t id() const { return file_.get(); }
  /// Flushes, closes and renames; every other handle into the file must be closed. Throws Error(data).
  void complete();

 private:
  std::string path_, temporary_;
  File file_;
};

/// Throws Error(data): "PATH: cannot be written: REASON". Call at once after the failed HDF5 call.
[[noreturn]] void fail_write(const std::string& path);

}  // namespace muster::dataset::hdf5
