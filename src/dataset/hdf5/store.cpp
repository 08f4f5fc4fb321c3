// Named arrays and texts in an HDF5 file, for checkpoints. Equal content gives equal bytes.
#include "dataset/hdf5/check.hpp"

#include <muster/dataset/store.hpp>

namespace muster::dataset {
namespace {

using namespace hdf5;

/// Equal content gives equal bytes: no times are stored.
PropertyList timeless(hid_t kind) {
  PropertyList list(MUSTER_HDF5_STORE(H5Pcreate(kind)));
  MUSTER_HDF5_STORE(H5Pset_obj_track_times(list.get(), 0));
  return list;
}

/// The disk may fill up at any of these calls.
template <class Value>
Value written(Value value, const std::string& path) {
  if (value < 0) fail(ExitCode::checkpoint, "{}: cannot be written: {}", path, error_text());
  return value;
}

void write(hid_t file, const std::string& path, const std::string& name, hid_t type, std::size_t count,
           const void* values) {
  const hsize_t extent = count;
  const DataSpace space(MUSTER_HDF5_STORE(H5Screate_simple(1, &extent, nullptr)));
  const PropertyList creation = timeless(H5P_DATASET_CREATE);
  const PropertyList links(MUSTER_HDF5_STORE(H5Pcreate(H5P_LINK_CREATE)));
  MUSTER_HDF5_STORE(H5Pset_create_intermediate_group(links.get(), 1));
  const DataSet set(
      written(H5Dcreate2(file, name.c_str(), type, space.get(), links.get(), creation.get(), H5P_DEFAULT), path));
  if (count > 0) written(H5Dwrite(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), path);
}

template <class T>
std::vector<T> read(hid_t file, const std::string& path, const std::string& name, hid_t type) {
  const DataSet set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  if (!set)
    fail(ExitCode::checkpoint, "{}: no entry '{}': not a checkpoint of this network and optimizer?", path, name);
  const DataSpace space(MUSTER_HDF5_STORE(H5Dget_space(set.get())));
  std::vector<T> values(static_cast<std::size_t>(MUSTER_HDF5_STORE(H5Sget_simple_extent_npoints(space.get()))));
  if (!values.empty()) MUSTER_HDF5_STORE(H5Dread(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  return values;
}

}  // namespace

struct StoreWriter::Impl {
  std::string path;
  File file;
};

StoreWriter::StoreWriter(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  prepare_library();
  impl_->path = path.string();
  const PropertyList creation = timeless(H5P_FILE_CREATE);
  impl_->file = File(written(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), impl_->path));
}
StoreWriter::~StoreWriter() = default;

void StoreWriter::put(const std::string& name, std::span<const float> values) {
  write(impl_->file.get(), impl_->path, name, H5T_NATIVE_FLOAT, values.size(), values.data());
}
void StoreWriter::put(const std::string& name, std::span<const double> values) {
  write(impl_->file.get(), impl_->path, name, H5T_NATIVE_DOUBLE, values.size(), values.data());
}
void StoreWriter::put(const std::string& name, std::span<const std::int64_t> values) {
  write(impl_->file.get(), impl_->path, name, H5T_NATIVE_INT64, values.size(), values.data());
}
void StoreWriter::put(const std::string& name, const std::string& text) {
  write(impl_->file.get(), impl_->path, name, H5T_NATIVE_UINT8, text.size(), text.data());
}

void StoreWriter::close() {
  written(H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL), impl_->path);
  written(H5Fclose(impl_->file.detach()), impl_->path);
}

struct StoreReader::Impl {
  std::string path;
  File file;
};

StoreReader::StoreReader(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  prepare_library();
  impl_->path = path.string();
  impl_->file = File(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!impl_->file) fail(ExitCode::checkpoint, "{}: cannot be read as HDF5: {}", impl_->path, error_text());
}
StoreReader::~StoreReader() = default;

bool StoreReader::has(const std::string& name) const {
  std::string part;
  for (char c : name + "/") {  // every group on the way must exist before the last link may be asked for
    if (c == '/' && !part.empty() && H5Lexists(impl_->file.get(), part.c_str(), H5P_DEFAULT) <= 0) return false;
    part += c;
  }
  return true;
}
std::vector<float> StoreReader::floats(const std::string& name) const {
  return read<float>(impl_->file.get(), impl_->path, name, H5T_NATIVE_FLOAT);
}
std::vector<double> StoreReader::doubles(const std::string& name) const {
  return read<double>(impl_->file.get(), impl_->path, name, H5T_NATIVE_DOUBLE);
}
std::vector<std::int64_t> StoreReader::integers(const std::string& name) const {
  return read<std::int64_t>(impl_->file.get(), impl_->path, name, H5T_NATIVE_INT64);
}
std::string StoreReader::text(const std::string& name) const {
  const auto bytes = read<char>(impl_->file.get(), impl_->path, name, H5T_NATIVE_UINT8);
  return {bytes.begin(), bytes.end()};
}

}  // namespace muster::dataset
