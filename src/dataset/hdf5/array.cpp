#include "dataset/hdf5/array.hpp"

#include <muster/base/text.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

namespace muster::dataset::hdf5 {
namespace {

/// The DType of an HDF5 type, if it is one that muster reads.
std::optional<DType> dtype_of(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t size = H5Tget_size(type);
  if (kind == H5T_FLOAT) {
    if (size == 4) return DType::f32;
    if (size == 8) return DType::f64;
    return std::nullopt;
  }
  if (kind != H5T_INTEGER) return std::nullopt;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (size) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? std::optional(DType::i32) : std::nullopt;
    case 8:
      return is_signed ? std::optional(DType::i64) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string class_name(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return "strings";
    case H5T_COMPOUND:
      return "compound records";
    case H5T_FLOAT:
      return fmt::format("{}-byte floats", H5Tget_size(type));
    case H5T_INTEGER:
      return fmt::format("{}-byte {} integers", H5Tget_size(type),
                         H5Tget_sign(type) == H5T_SGN_2 ? "signed" : "unsigned");
    default:
      return "another type";
  }
}

/// How the data lie in the file, for describe().
std::string layout_text(hid_t set) {
  const PropertyList list(MUSTER_HDF5(H5Dget_create_plist(set)));
  const H5D_layout_t layout = H5Pget_layout(list.get());
  if (layout == H5D_CONTIGUOUS) return "contiguous";
  if (layout == H5D_COMPACT) return "compact";
  if (layout != H5D_CHUNKED) return "virtual";
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = MUSTER_HDF5(H5Pget_chunk(list.get(), H5S_MAX_RANK, chunk));
  std::vector<std::string> extents;
  for (int i = 0; i < rank; ++i) extents.push_back(std::to_string(chunk[i]));
  std::string text = "chunks [" + join(extents, ", ") + "]";
  for (int i = 0; i < H5Pget_nfilters(list.get()); ++i) {
    char name[64] = {};
    std::size_t values = 0;
    unsigned flags = 0, configuration = 0;
    H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags, &values, nullptr, sizeof(name), name, &configuration);
    text += fmt::format(" {}", name);
  }
  return text;
}

}  // namespace

hid_t native_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return H5T_NATIVE_FLOAT;
    case DType::f64:
      return H5T_NATIVE_DOUBLE;
    case DType::u8:
      return H5T_NATIVE_UINT8;
    case DType::i8:
      return H5T_NATIVE_INT8;
    case DType::i16:
      return H5T_NATIVE_INT16;
    case DType::u16:
      return H5T_NATIVE_UINT16;
    case DType::i32:
      return H5T_NATIVE_INT32;
    case DType::i64:
      return H5T_NATIVE_INT64;
    case DType::bf16:
      break;
  }
  return -1;
}

File open_file(const std::string& path) {
  prepare_library();
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);  // to open a pipe is to wait for its writer
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ExitCode::data, "{}: expected an HDF5 file, found a {}; muster convert makes one", path,
         std::filesystem::is_directory(status) ? "folder" : "pipe or device");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    fail(ExitCode::data, "{}: cannot open: {}; expected an HDF5 file (muster convert makes one)", path,
         std::strerror(errno));
  ::close(descriptor);
  File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (file) return file;
  const std::string reason = error_text();
  if (H5Fis_hdf5(path.c_str()) > 0)
    fail(ExitCode::data,
         "{}: an HDF5 file that cannot be read, probably truncated ({} on disk): {}; copy or convert it again", path,
         human_bytes(std::filesystem::file_size(path)), reason);
  fail(ExitCode::data,
       "{}: expected an HDF5 file, found another format ({}); muster convert turns idx, CIFAR, CSV, npy and raw into "
       "HDF5",
       path, reason);
}

std::vector<std::string> list_datasets(const File& file) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* target) -> herr_t {
    if (info->type == H5O_TYPE_DATASET)
      static_cast<std::vector<std::string>*>(target)->push_back(std::string("/") + name);
    return 0;
  };
  MUSTER_HDF5(H5Ovisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &names));
  return names;
}

Array::Array(const std::string& path, const File& file, const std::string& name)
    : place_(path + ":" + (name.starts_with("/") ? "" : "/") + name) {
  set_ = DataSet(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  if (!set_) {
    const auto found = list_datasets(file);
    const std::string wanted = name.starts_with("/") ? name : "/" + name;
    fail(ExitCode::data, "{}: no dataset '{}'; the file holds: {}{}", path, name,
         found.empty() ? "nothing" : join(found, ", "), did_you_mean(wanted, found));
  }
  const DataType type(MUSTER_HDF5(H5Dget_type(set_.get())));
  const auto dtype = dtype_of(type.get());
  if (!dtype) fail(ExitCode::data, "{}: expected integers or floats, found {}", place_, class_name(type.get()));
  dtype_ = *dtype;

  const DataSpace space(MUSTER_HDF5(H5Dget_space(set_.get())));
  hsize_t extents[H5S_MAX_RANK];
  const int rank = MUSTER_HDF5(H5Sget_simple_extent_dims(space.get(), extents, nullptr));
  if (rank < 1) fail(ExitCode::data, "{}: expected samples along the first axis, found a scalar", place_);
  size_ = static_cast<std::int64_t>(extents[0]);
  sample_shape_ = Shape(std::vector<std::int64_t>(extents + 1, extents + rank));
  sample_bytes_ = static_cast<std::size_t>(sample_shape_.elements()) * size_of(dtype_);
  layout_ = layout_text(set_.get());

  const PropertyList list(MUSTER_HDF5(H5Dget_create_plist(set_.get())));
  const bool is_native = H5Tequal(type.get(), native_type(dtype_)) > 0;
  if (!is_native || H5Pget_layout(list.get()) != H5D_CONTIGUOUS || H5Pget_external_count(list.get()) > 0) return;
  offset_ = H5Dget_offset(set_.get());
  if (offset_ == HADDR_UNDEF) return;  // not yet written: HDF5 delivers the fill value
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(ExitCode::data, "{}: cannot open: {}", path, std::strerror(errno));
  const auto needed = offset_ + static_cast<haddr_t>(size_) * sample_bytes_;
  if (const auto on_disk = std::filesystem::file_size(path); on_disk < needed)
    fail(ExitCode::data,
         "{}: the file is truncated: the dataset ends at byte {}, the file at {}; copy or convert it again", place_,
         needed, on_disk);
}

Array::~Array() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Array::Array(Array&& other) noexcept
    : place_(std::move(other.place_)),
      layout_(std::move(other.layout_)),
      set_(std::move(other.set_)),
      dtype_(other.dtype_),
      size_(other.size_),
      sample_shape_(std::move(other.sample_shape_)),
      sample_bytes_(other.sample_bytes_),
      offset_(other.offset_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

std::string Array::describe() const {
  return fmt::format("{} {} {} {}", place_, name_of(dtype_), sample_shape_.batched(size_).text(), layout_);
}

Statistics Array::statistics() const {
  Statistics statistics;
  for (auto [name, values] : {std::pair{"mean", &statistics.mean}, std::pair{"std", &statistics.std}}) {
    if (H5Aexists(set_.get(), name) <= 0) continue;
    const Attribute attribute(MUSTER_HDF5(H5Aopen(set_.get(), name, H5P_DEFAULT)));
    const DataSpace space(MUSTER_HDF5(H5Aget_space(attribute.get())));
    values->resize(static_cast<std::size_t>(MUSTER_HDF5(H5Sget_simple_extent_npoints(space.get()))));
    MUSTER_HDF5(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, values->data()));
  }
  return statistics;
}

void Array::read(std::span<const std::int64_t> indices, std::byte* out) {
  for (std::size_t i = 0; i < indices.size();) {  // runs of neighbours in one call
    std::size_t run = 1;
    while (i + run < indices.size() && indices[i + run] == indices[i] + static_cast<std::int64_t>(run)) ++run;
    read_range(indices[i], static_cast<std::int64_t>(run), out + i * sample_bytes_);
    i += run;
  }
}

void Array::read_range(std::int64_t first, std::int64_t count, std::byte* out) {
  if (is_direct()) read_direct(first, count, out);
  else read_slab(first, count, out);
}

void Array::read_direct(std::int64_t first, std::int64_t count, std::byte* out) const {
  std::size_t left = static_cast<std::size_t>(count) * sample_bytes_;
  auto at = static_cast<off_t>(offset_ + static_cast<haddr_t>(first) * sample_bytes_);
  while (left > 0) {
    const ssize_t got = ::pread(descriptor_, out, left, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      fail(ExitCode::data, "{}: cannot read samples {}-{}: {}", place_, first, first + count - 1,
           got == 0 ? "the file ends before the data (truncated?)" : std::strerror(errno));
    left -= static_cast<std::size_t>(got);
    at += got;
    out += got;
  }
}

void Array::read_slab(std::int64_t first, std::int64_t count, std::byte* out) {
  const DataSpace file_space(MUSTER_HDF5(H5Dget_space(set_.get())));
  std::vector<hsize_t> start(sample_shape_.rank() + 1, 0), extent;
  start[0] = static_cast<hsize_t>(first);
  extent.push_back(static_cast<hsize_t>(count));
  for (std::int64_t e : sample_shape_) extent.push_back(static_cast<hsize_t>(e));
  MUSTER_HDF5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr));
  const DataSpace memory_space(MUSTER_HDF5(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr)));
  if (H5Dread(set_.get(), native_type(dtype_), memory_space.get(), file_space.get(), H5P_DEFAULT, out) < 0)
    fail(ExitCode::data, "{}: cannot read samples {}-{}: {}", place_, first, first + count - 1, error_text());
}

}  // namespace muster::dataset::hdf5
