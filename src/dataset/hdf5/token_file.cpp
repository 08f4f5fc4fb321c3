#include "dataset/hdf5/token_file.hpp"

#include "dataset/hdf5/array.hpp"
#include "dataset/hdf5/new_file.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace muster::dataset::hdf5 {
namespace {

template <class Stored>
void widen(const std::vector<std::byte>& from, std::int64_t count, std::int32_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from.data() + (i + 1) * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
    to[i] = static_cast<std::int32_t>(value);
  }
}

class TokenDataset : public Dataset {
 public:
  TokenDataset(const SourceOptions& source, const std::string& section)
      : window_(source.window), stride_(source.stride > 0 ? source.stride : source.window), shape_{source.window} {
    for (const std::string& path : source.files) add_part(path, source.tokens);
    size_ = total_;
    if (source.range) {
      if (source.range->begin < 0 || source.range->end > total_ || source.range->empty())
        fail(ExitCode::data, "{}.range: expected a non-empty part of the {} samples, found [{}, {}]", section, total_,
             source.range->begin, source.range->end);
      first_ = source.range->begin;
      size_ = source.range->size();
    }
    if (size_ == 0)
      fail(ExitCode::data, "{}: {} holds {} tokens, too few for one window of {} and its target; use a shorter window",
           section, parts_[0].tokens.place(), parts_[0].tokens.size(), window_);
  }

  std::int64_t size() const override { return size_; }
  const Shape& input_shape() const override { return shape_; }
  DType input_dtype() const override { return parts_[0].tokens.dtype(); }
  const Shape& target_shape() const override { return shape_; }
  bool has_class_labels() const override { return true; }
  Statistics statistics() const override { return {}; }
  std::int64_t label_stride() const override { return std::max<std::int64_t>(window_ / stride_, 1); }
  std::string describe() const override {
    return fmt::format("{}, {} windows of {} tokens", parts_[0].tokens.describe(), size_, window_);
  }

  void read(std::span<const std::int64_t> indices, void* inputs, void* targets) override {
    const std::size_t bytes = static_cast<std::size_t>(window_) * size_of(input_dtype());
    stored_.resize(static_cast<std::size_t>(window_ + 1) * size_of(input_dtype()));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      Part& part = part_of(indices[i] + first_);
      part.tokens.read_range((indices[i] + first_ - part.first) * stride_, window_ + 1, stored_.data());
      if (inputs) std::memcpy(static_cast<std::byte*>(inputs) + i * bytes, stored_.data(), bytes);
      if (targets) shift(static_cast<std::int32_t*>(targets) + static_cast<std::int64_t>(i) * window_);
    }
  }

 private:
  struct Part {
    File file;
    Array tokens;
    std::int64_t first;  // index of its first sample
  };

  void add_part(const std::string& path, const std::string& name) {
    File file = open_file(path);
    Array tokens(path, file, name);
    const DType type = tokens.dtype();
    if (tokens.sample_shape().rank() != 0 || (type != DType::u8 && type != DType::u16 && type != DType::i32))
      fail(ExitCode::data, "{}: expected one row of uint8, uint16 or int32 token ids, found {} {}", tokens.place(),
           name_of(type), tokens.sample_shape().batched(tokens.size()).text());
    if (!parts_.empty() && type != input_dtype())
      fail(ExitCode::data, "all files of a split must agree: {} holds {}, {} holds {}", parts_[0].tokens.place(),
           name_of(input_dtype()), tokens.place(), name_of(type));
    const std::int64_t windows = tokens.size() > window_ ? (tokens.size() - window_ - 1) / stride_ + 1 : 0;
    parts_.push_back({std::move(file), std::move(tokens), total_});
    total_ += windows;
  }

  Part& part_of(std::int64_t index) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
      if (index >= part->first) return *part;
    return parts_[0];
  }

  void shift(std::int32_t* out) const {
    if (input_dtype() == DType::u8) widen<std::uint8_t>(stored_, window_, out);
    else if (input_dtype() == DType::u16) widen<std::uint16_t>(stored_, window_, out);
    else widen<std::int32_t>(stored_, window_, out);
  }

  std::int64_t window_, stride_;
  Shape shape_;
  std::vector<Part> parts_;
  std::int64_t total_ = 0, first_ = 0, size_ = 0;
  std::vector<std::byte> stored_;
};

void write_row(hid_t file, const std::string& name, DType type, const void* data, std::size_t count,
               const std::string& path) {
  const hsize_t extent = count;
  const DataSpace space(MUSTER_HDF5(H5Screate_simple(1, &extent, nullptr)));
  const PropertyList creation(MUSTER_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  MUSTER_HDF5(H5Pset_obj_track_times(creation.get(), 0));
  const PropertyList links(MUSTER_HDF5(H5Pcreate(H5P_LINK_CREATE)));
  MUSTER_HDF5(H5Pset_create_intermediate_group(links.get(), 1));
  const DataSet set(MUSTER_HDF5(
      H5Dcreate2(file, name.c_str(), native_type(type), space.get(), links.get(), creation.get(), H5P_DEFAULT)));
  if (H5Dwrite(set.get(), native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) fail_write(path);
}

template <class Stored>
void write_ids(hid_t file, const std::string& name, DType type, std::span<const std::int32_t> ids,
               const std::string& path) {
  std::vector<Stored> stored;
  for (std::int32_t id : ids) stored.push_back(static_cast<Stored>(id));
  write_row(file, name, type, stored.data(), stored.size(), path);
}

}  // namespace

std::unique_ptr<Dataset> open_tokens(const SourceOptions& source, const std::string& section) {
  return std::make_unique<TokenDataset>(source, section);
}

std::string read_vocabulary(const std::string& path) {
  const File file = open_file(path);
  Array text(path, file, "vocabulary");
  std::string content(static_cast<std::size_t>(text.size()), '\0');
  if (text.dtype() != DType::u8 || text.sample_shape().rank() != 0)
    fail(ExitCode::data, "{}: expected the bytes of a vocabulary, found {}", text.place(), name_of(text.dtype()));
  text.read_range(0, text.size(), reinterpret_cast<std::byte*>(content.data()));
  return content;
}

void write_tokens(const std::string& path, std::span<const std::int32_t> train, std::span<const std::int32_t> test,
                  const std::string& vocabulary, std::int64_t vocabulary_size, bool is_forced) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !is_forced)
    fail(ExitCode::usage, "{} exists already; replace it with --force", path);
  NewFile file(path, false);
  const auto write = [&](const std::string& name, std::span<const std::int32_t> ids) {
    if (vocabulary_size <= 256) write_ids<std::uint8_t>(file.id(), name, DType::u8, ids, path);
    else if (vocabulary_size <= 65536) write_ids<std::uint16_t>(file.id(), name, DType::u16, ids, path);
    else write_ids<std::int32_t>(file.id(), name, DType::i32, ids, path);
  };
  write("train/tokens", train);
  if (!test.empty()) write("test/tokens", test);
  write_row(file.id(), "vocabulary", DType::u8, vocabulary.data(), vocabulary.size(), path);
  file.complete();
}

}  // namespace muster::dataset::hdf5
