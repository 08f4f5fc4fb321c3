#include "dataset/hdf5/hdf5_dataset.hpp"

#include "dataset/hdf5/array.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace muster::dataset::hdf5 {
namespace {

struct Part {
  File file;
  Array inputs;
  std::unique_ptr<Array> targets;
  std::int64_t first = 0;  // index of its first sample in the joined set
};

bool is_float(DType t) { return t == DType::f32 || t == DType::f64; }

template <class From, class To>
void convert(const std::byte* from, std::int64_t count, To* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

template <class To>
void convert_from(DType dtype, const std::byte* from, std::int64_t count, To* to) {
  switch (dtype) {
    case DType::f32:
      return convert<float>(from, count, to);
    case DType::f64:
      return convert<double>(from, count, to);
    case DType::u8:
      return convert<std::uint8_t>(from, count, to);
    case DType::i8:
      return convert<std::int8_t>(from, count, to);
    case DType::u16:
      return convert<std::uint16_t>(from, count, to);
    case DType::i16:
      return convert<std::int16_t>(from, count, to);
    case DType::i32:
      return convert<std::int32_t>(from, count, to);
    case DType::i64:
      return convert<std::int64_t>(from, count, to);
    case DType::bf16:
      break;
  }
}

class Hdf5Dataset : public Dataset {
 public:
  Hdf5Dataset(const SourceOptions& options, const std::string& section, bool needs_targets) {
    for (const std::string& path : options.files) add_part(path, options, needs_targets);
    first_ = 0;
    size_ = total_;
    if (options.range) {
      const Range range = *options.range;
      if (range.begin < 0 || range.end > total_ || range.empty())
        fail(ExitCode::data, "{}.range: expected a non-empty part of the {} samples, found [{}, {}]", section, total_,
             range.begin, range.end);
      first_ = range.begin;
      size_ = range.size();
    }
    if (size_ == 0)
      fail(ExitCode::data, "{}: the split is empty: {} holds no samples", section, parts_[0].inputs.place());
  }

  std::int64_t size() const override { return size_; }
  const Shape& input_shape() const override { return parts_[0].inputs.sample_shape(); }
  DType input_dtype() const override { return parts_[0].inputs.dtype(); }
  const Shape& target_shape() const override {
    return parts_[0].targets ? parts_[0].targets->sample_shape() : no_shape_;
  }
  bool has_class_labels() const override {
    return parts_[0].targets && !is_float(parts_[0].targets->dtype()) && target_shape().rank() == 0;
  }
  /// Of all files together: stored means and variances weighted by the files' samples; none where a file has none.
  Statistics statistics() const override {
    if (parts_.size() == 1) return parts_[0].inputs.statistics();
    Statistics all;
    std::vector<double> squares;
    for (const Part& part : parts_) {
      const Statistics one = part.inputs.statistics();
      if (one.mean.empty() || one.std.size() != one.mean.size()) return {};
      if (all.mean.empty()) all.mean.resize(one.mean.size()), squares.resize(one.mean.size());
      if (one.mean.size() != all.mean.size()) return {};
      const double weight = static_cast<double>(part.inputs.size()) / static_cast<double>(total_);
      for (std::size_t c = 0; c < one.mean.size(); ++c) {
        all.mean[c] += weight * one.mean[c];
        squares[c] += weight * (one.std[c] * one.std[c] + one.mean[c] * one.mean[c]);
      }
    }
    for (std::size_t c = 0; c < squares.size(); ++c)
      all.std.push_back(std::sqrt(std::max(squares[c] - all.mean[c] * all.mean[c], 0.0)));
    return all;
  }
  std::string describe() const override {
    std::string text = parts_[0].inputs.describe();
    if (parts_.size() > 1) text += fmt::format(" and {} more files", parts_.size() - 1);
    if (size_ != total_) text += fmt::format(", samples {}-{}", first_, first_ + size_ - 1);
    return text;
  }

  void read(std::span<const std::int64_t> indices, void* inputs, void* targets) override {
    const std::size_t input_bytes = static_cast<std::size_t>(input_shape().elements()) * size_of(input_dtype());
    const std::int64_t per_target = target_shape().elements();
    for (std::size_t i = 0; i < indices.size();) {
      Part& part = part_of(indices[i] + first_);
      local_.clear();
      while (i + local_.size() < indices.size()) {
        const std::int64_t index = indices[i + local_.size()] + first_ - part.first;
        if (index < 0 || index >= part.inputs.size()) break;
        local_.push_back(index);
      }
      if (inputs) part.inputs.read(local_, static_cast<std::byte*>(inputs) + i * input_bytes);
      if (part.targets && targets)
        read_targets(*part.targets, static_cast<std::byte*>(targets) + static_cast<std::int64_t>(i) * per_target * 4);
      i += local_.size();
    }
  }

 private:
  void add_part(const std::string& path, const SourceOptions& options, bool needs_targets) {
    File file = open_file(path);
    Array inputs(path, file, options.inputs);
    std::unique_ptr<Array> targets;
    if (needs_targets) {
      targets = std::make_unique<Array>(path, file, options.targets);
      if (targets->size() != inputs.size())
        fail(ExitCode::data, "{} has {} samples, but {} has {}: inputs and targets must be equally many",
             inputs.place(), inputs.size(), targets->place(), targets->size());
    }
    if (!parts_.empty()) {
      const Array& first = parts_[0].inputs;
      if (inputs.sample_shape() != first.sample_shape() || inputs.dtype() != first.dtype())
        fail(ExitCode::data, "all files of a split must agree: {} holds {} {}, {} holds {} {}", first.place(),
             name_of(first.dtype()), first.sample_shape().text(), inputs.place(), name_of(inputs.dtype()),
             inputs.sample_shape().text());
      if (targets && targets->sample_shape() != parts_[0].targets->sample_shape())
        fail(ExitCode::data, "all files of a split must agree: {} and {} have targets of different shapes",
             parts_[0].targets->place(), targets->place());
      if (targets && is_float(targets->dtype()) != is_float(parts_[0].targets->dtype()))
        fail(ExitCode::data, "all files of a split must agree: {} holds {} targets, {} {}", parts_[0].targets->place(),
             name_of(parts_[0].targets->dtype()), targets->place(), name_of(targets->dtype()));
    }
    const std::int64_t count = inputs.size();
    parts_.push_back({std::move(file), std::move(inputs), std::move(targets), total_});
    total_ += count;
  }

  Part& part_of(std::int64_t index) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
      if (index >= part->first) return *part;
    return parts_[0];
  }

  void read_targets(Array& array, std::byte* out) {
    const std::int64_t count = static_cast<std::int64_t>(local_.size()) * target_shape().elements();
    stored_.resize(static_cast<std::size_t>(count) * size_of(array.dtype()));
    array.read(local_, stored_.data());
    if (has_class_labels() && array.dtype() == DType::i64) check_range(array);
    if (has_class_labels()) convert_from(array.dtype(), stored_.data(), count, reinterpret_cast<std::int32_t*>(out));
    else convert_from(array.dtype(), stored_.data(), count, reinterpret_cast<float*>(out));
  }

  /// Labels travel as int32.
  void check_range(const Array& array) const {
    for (std::size_t i = 0; i < local_.size(); ++i) {
      std::int64_t label = 0;
      std::memcpy(&label, stored_.data() + i * sizeof label, sizeof label);
      if (label < 0 || label > std::numeric_limits<std::int32_t>::max())
        fail(ExitCode::data, "{}: sample {} has label {}, expected a class counted from 0", array.place(), local_[i],
             label);
    }
  }

  std::vector<Part> parts_;
  std::int64_t total_ = 0, first_ = 0, size_ = 0;
  Shape no_shape_;
  std::vector<std::int64_t> local_;
  std::vector<std::byte> stored_;
};

}  // namespace

std::unique_ptr<Dataset> open_dataset(const SourceOptions& options, const std::string& section, bool needs_targets) {
  return std::make_unique<Hdf5Dataset>(options, section, needs_targets);
}

}  // namespace muster::dataset::hdf5
