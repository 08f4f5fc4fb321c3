#include "dataset/hdf5/new_file.hpp"

#include <muster/base/file.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace muster::dataset::hdf5 {
namespace fs = std::filesystem;
namespace {

hid_t create(const std::string& path) {
  const PropertyList creation(MUSTER_HDF5(H5Pcreate(H5P_FILE_CREATE)));
  MUSTER_HDF5(H5Pset_obj_track_times(creation.get(), 0));
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT);
  if (file < 0) fail_write(path);
  return file;
}

void remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

void fail_write(const std::string& path) { fail(ExitCode::data, "{}: cannot be written: {}", path, error_text()); }

NewFile::NewFile(const std::string& path, bool is_copy) : path_(path), temporary_(path + ".tmp") {
  prepare_library();
  try {
    if (is_copy) {
      std::error_code error;
      fs::copy_file(path_, temporary_, fs::copy_options::overwrite_existing, error);
      if (error) fail(ExitCode::data, "{}: cannot be copied to {}: {}", path_, temporary_, error.message());
      file_ = File(H5Fopen(temporary_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      if (!file_) fail(ExitCode::data, "{}: expected an HDF5 file to append to: {}", path_, error_text());
    } else {
      errno = 0;
      if (!std::ofstream(temporary_))
        fail(ExitCode::data, "{}: cannot be created: {}", temporary_, std::strerror(errno));
      file_ = File(create(temporary_));
    }
  } catch (...) {
    remove(temporary_);
    throw;
  }
}

NewFile::~NewFile() {
  file_.reset();
  if (!temporary_.empty()) remove(temporary_);
}

void NewFile::complete() {
  if (H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) < 0 || H5Fclose(file_.detach()) < 0) fail_write(path_);
  fsync_file(temporary_);
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) fail(ExitCode::data, "{}: cannot be renamed to {}: {}", temporary_, path_, error.message());
  temporary_.clear();
}

}  // namespace muster::dataset::hdf5
