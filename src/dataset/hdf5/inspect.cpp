// `muster inspect`: what an HDF5 file holds, and how well it suits random access.
#include "dataset/hdf5/array.hpp"

#include <muster/dataset/convert.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace muster::dataset {
namespace {

using namespace hdf5;

/// Bytes moved from disk for one sample at a random place, over the sample's own bytes.
double read_amplification(hid_t set, const Shape& sample) {
  const PropertyList list(MUSTER_HDF5(H5Dget_create_plist(set)));
  if (H5Pget_layout(list.get()) != H5D_CHUNKED) return 1.0;
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = MUSTER_HDF5(H5Pget_chunk(list.get(), H5S_MAX_RANK, chunk));
  double moved = static_cast<double>(chunk[0]);
  for (int axis = 1; axis < rank; ++axis) {
    const double extent = static_cast<double>(sample[static_cast<std::size_t>(axis - 1)]),
                 width = static_cast<double>(chunk[axis]);
    moved *= std::ceil(extent / width) * width;
  }
  return moved / static_cast<double>(sample.elements());
}

double value_at(DType type, const std::byte* data, std::int64_t i) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(v);
  };
  switch (type) {
    case DType::f32:
      return get(float{});
    case DType::f64:
      return get(double{});
    case DType::u8:
      return get(std::uint8_t{});
    case DType::i8:
      return get(std::int8_t{});
    case DType::u16:
      return get(std::uint16_t{});
    case DType::i16:
      return get(std::int16_t{});
    case DType::i32:
      return get(std::int32_t{});
    case DType::i64:
      return get(std::int64_t{});
    case DType::bf16:
      break;
  }
  return 0;
}

struct Looked {
  std::int64_t samples = 0;
  double smallest = INFINITY, largest = -INFINITY;
  std::int64_t not_finite = 0;
  std::map<std::int64_t, std::int64_t> histogram;  // of integer scalars
};

Looked look(Array& array, std::int64_t max_samples) {
  Looked looked;
  const std::int64_t elements = array.sample_shape().elements();
  const bool is_label = array.sample_shape().rank() == 0 && array.dtype() != DType::f32 && array.dtype() != DType::f64;
  constexpr std::int64_t block = 256;
  std::vector<std::byte> values(static_cast<std::size_t>(block * elements) * size_of(array.dtype()));
  for (std::int64_t first = 0; first < std::min(max_samples, array.size()); first += block) {
    const std::int64_t count = std::min({block, array.size() - first, max_samples - first});
    array.read_range(first, count, values.data());
    looked.samples += count;
    for (std::int64_t i = 0; i < count * elements; ++i) {
      const double value = value_at(array.dtype(), values.data(), i);
      if (!std::isfinite(value)) {
        ++looked.not_finite;
        continue;
      }
      looked.smallest = std::min(looked.smallest, value);
      looked.largest = std::max(looked.largest, value);
      if (is_label) ++looked.histogram[static_cast<std::int64_t>(value)];
    }
  }
  return looked;
}

std::string histogram_text(const Looked& looked) {
  constexpr std::size_t most_classes = 1000, per_line = 10;
  if (looked.histogram.empty() || looked.histogram.size() > most_classes) return "";
  std::string text = fmt::format("  {} classes:", looked.histogram.size());
  std::size_t i = 0;
  for (const auto& [label, count] : looked.histogram) {
    if (i++ % per_line == 0) text += "\n   ";
    text += fmt::format(" {}: {}", label, count);
  }
  return text + "\n";
}

}  // namespace

std::string inspect(const std::string& path, std::int64_t max_samples) {
  const File file = open_file(path);
  const auto names = list_datasets(file);
  std::string text = fmt::format("{}: {} dataset{}\n", path, names.size(), names.size() == 1 ? "" : "s");
  for (const std::string& name : names) {
    const DataSet set(MUSTER_HDF5(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT)));
    try {
      Array array(path, file, name);
      text +=
          fmt::format("{}  {} {}{}\n", name, name_of(array.dtype()), array.sample_shape().batched(array.size()).text(),
                      array.describe().substr(
                          array.describe().rfind(']') == std::string::npos ? 0 : array.describe().find(']') + 1));
      text += fmt::format(
          "  random access reads {:.3g} bytes per byte used{}\n", read_amplification(set.get(), array.sample_shape()),
          array.is_direct() ? ", straight from the file" : "; contiguous and uncompressed data are read fastest");
      const Statistics statistics = array.statistics();
      if (!statistics.mean.empty())
        text +=
            fmt::format("  mean {:.6g}  std {:.6g}\n", fmt::join(statistics.mean, " "), fmt::join(statistics.std, " "));
      const Looked looked = look(array, max_samples);
      if (looked.samples > 0)
        text +=
            fmt::format("  {} samples looked at: smallest {:.6g}, largest {:.6g}{}\n", looked.samples, looked.smallest,
                        looked.largest, looked.not_finite > 0 ? fmt::format(", {} NaN or Inf", looked.not_finite) : "");
      text += histogram_text(looked);
    } catch (const Error& error) {
      text += fmt::format("{}  {}\n", name, error.what());
    }
  }
  return text;
}

}  // namespace muster::dataset
