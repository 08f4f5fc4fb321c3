// Writes a converted dataset. Equal content gives equal bytes; the file appears under its name only when it is
// complete.
#include "dataset/convert/writer.hpp"

#include "dataset/hdf5/array.hpp"
#include "dataset/hdf5/new_file.hpp"

#include <muster/base/check.hpp>

#include <cmath>
#include <filesystem>

namespace muster::dataset {
namespace {

namespace fs = std::filesystem;
using namespace hdf5;

DataSet create_dataset(hid_t file, const std::string& name, DType type, const Shape& batched, int deflate,
                       const std::string& output) {
  std::vector<hsize_t> extents(batched.begin(), batched.end());
  const DataSpace space(MUSTER_HDF5(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr)));
  const PropertyList creation(MUSTER_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  MUSTER_HDF5(H5Pset_obj_track_times(creation.get(), 0));
  if (deflate > 0 && extents[0] > 0) {
    std::vector<hsize_t> chunk = extents;
    chunk[0] = std::min<hsize_t>(chunk[0], 64);
    MUSTER_HDF5(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()));
    MUSTER_HDF5(H5Pset_deflate(creation.get(), static_cast<unsigned>(deflate)));
  }
  const PropertyList links(MUSTER_HDF5(H5Pcreate(H5P_LINK_CREATE)));
  MUSTER_HDF5(H5Pset_create_intermediate_group(links.get(), 1));
  DataSet set(H5Dcreate2(file, name.c_str(), native_type(type), space.get(), links.get(), creation.get(), H5P_DEFAULT));
  if (!set)
    fail(ExitCode::data, "{}: cannot create dataset '{}' ({}); is there one of that name already?", output, name,
         error_text());
  return set;
}

/// Every promise of a format about its sizes ends here: HDF5 itself takes none of these.
void check_sizes(const ConvertOptions& options, std::int64_t samples, const Shape& input, const Shape& target) {
  constexpr std::size_t most_axes = H5S_MAX_RANK - 1;
  const std::string& place = options.inputs.empty() ? options.output : options.inputs.front();
  if (samples < 1) fail(ExitCode::data, "{}: expected samples, found none", place);
  for (const Shape& shape : {input, target}) {
    if (shape.rank() > most_axes)
      fail(ExitCode::data, "{}: expected samples of at most {} axes, found {}", place, most_axes, shape.rank());
    if (shape.batched(samples).elements() < 1)
      fail(ExitCode::data, "{}: expected samples with elements, found the shape {}", place, shape.text());
  }
}

bool must_be_copied(const ConvertOptions& options) {
  std::error_code ignored;
  const bool exists = fs::exists(options.output, ignored);
  if (exists && !options.is_forced && !options.is_appended)
    fail(ExitCode::usage, "{} exists already; replace it with --force, or add to it with --append", options.output);
  return exists && options.is_appended;
}

}  // namespace

struct ConvertWriter::Impl {
  Impl(const ConvertOptions& options, std::int64_t samples, DType input_type, const Shape& input_shape,
       DType target_type, const Shape& target_shape);
  void check_finite(const std::vector<std::string>& files, const Shape& shape, std::int64_t done,
                    std::span<const std::byte> values) const;
  void add(DataSet& set, DType type, const Shape& shape, std::int64_t& done, std::span<const std::byte> values);
  void add_inputs(std::span<const std::byte> values);
  void sum(std::span<const std::byte> values);
  void write_attribute(const char* name, const std::vector<double>& values);
  std::string close();

  ConvertOptions options_;
  std::int64_t samples_;
  DType input_type_, target_type_;
  Shape input_shape_, target_shape_;
  NewFile file_;
  DataSet inputs_, targets_;
  std::int64_t inputs_done_ = 0, targets_done_ = 0;
  std::vector<double> sums_, squares_;  // per channel
};

ConvertWriter::Impl::Impl(const ConvertOptions& options, std::int64_t samples, DType input_type,
                          const Shape& input_shape, DType target_type, const Shape& target_shape)
    : options_(options),
      samples_(samples),
      input_type_(input_type),
      target_type_(target_type),
      input_shape_(input_shape),
      target_shape_(target_shape),
      file_(options.output, must_be_copied(options)) {
  const std::int64_t channels = input_shape.rank() >= 2 ? input_shape[0] : 1;
  sums_.assign(static_cast<std::size_t>(channels), 0.0);
  squares_ = sums_;
  inputs_ = create_dataset(file_.id(), options.inputs_name, input_type, input_shape.batched(samples), options.deflate,
                           options.output);
  targets_ = create_dataset(file_.id(), options.targets_name, target_type, target_shape.batched(samples),
                            options.deflate, options.output);
}

void ConvertWriter::Impl::add(DataSet& set, DType type, const Shape& shape, std::int64_t& done,
                              std::span<const std::byte> values) {
  const std::int64_t sample_bytes = shape.elements() * static_cast<std::int64_t>(size_of(type));
  const std::int64_t count = static_cast<std::int64_t>(values.size()) / sample_bytes;
  MUSTER_CHECK_EQ(count * sample_bytes, static_cast<std::int64_t>(values.size()));
  MUSTER_CHECK(done + count <= samples_, "{} + {} of {} samples", done, count, samples_);
  if (count == 0) return;
  std::vector<hsize_t> start(shape.rank() + 1, 0), extent{static_cast<hsize_t>(count)};
  for (std::int64_t e : shape) extent.push_back(static_cast<hsize_t>(e));
  start[0] = static_cast<hsize_t>(done);
  const DataSpace file_space(MUSTER_HDF5(H5Dget_space(set.get())));
  MUSTER_HDF5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr));
  const DataSpace memory_space(MUSTER_HDF5(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr)));
  if (H5Dwrite(set.get(), native_type(type), memory_space.get(), file_space.get(), H5P_DEFAULT, values.data()) < 0)
    fail_write(options_.output);
  done += count;
}

void ConvertWriter::Impl::check_finite(const std::vector<std::string>& files, const Shape& shape, std::int64_t done,
                                       std::span<const std::byte> values) const {
  for (std::size_t i = 0; i < values.size() / sizeof(float); ++i) {
    float value;
    std::memcpy(&value, values.data() + i * sizeof(float), sizeof(float));
    const auto elements = static_cast<std::size_t>(shape.elements());
    if (!std::isfinite(value))
      fail(ExitCode::data, "{}: sample {}: element {}: expected finite numbers, found {}",
           files.empty() ? options_.output : files.front(), static_cast<std::size_t>(done) + i / elements, i % elements,
           value);
  }
}

void ConvertWriter::Impl::sum(std::span<const std::byte> values) {
  const auto channels = static_cast<std::int64_t>(sums_.size()), image = input_shape_.elements() / channels;
  const auto elements = static_cast<std::int64_t>(values.size() / size_of(input_type_));
  for (std::int64_t i = 0; i < elements; ++i) {
    double value = 0;
    if (input_type_ == DType::u8) value = std::to_integer<int>(values[static_cast<std::size_t>(i)]) / 255.0;
    else {
      float v;
      std::memcpy(&v, values.data() + i * 4, 4);
      value = static_cast<double>(v);
    }
    const auto c = static_cast<std::size_t>(i / image % channels);
    sums_[c] += value;
    squares_[c] += value * value;
  }
}

void ConvertWriter::Impl::add_inputs(std::span<const std::byte> values) {
  MUSTER_CHECK(input_type_ == DType::u8 || input_type_ == DType::f32, "inputs of type {}", name_of(input_type_));
  if (input_type_ == DType::f32) check_finite(options_.inputs, input_shape_, inputs_done_, values);
  add(inputs_, input_type_, input_shape_, inputs_done_, values);
  sum(values);
}

void ConvertWriter::Impl::write_attribute(const char* name, const std::vector<double>& values) {
  const hsize_t extent = values.size();
  const DataSpace space(MUSTER_HDF5(H5Screate_simple(1, &extent, nullptr)));
  const Attribute attribute(
      MUSTER_HDF5(H5Acreate2(inputs_.get(), name, H5T_NATIVE_DOUBLE, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  MUSTER_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, values.data()));
}

std::string ConvertWriter::Impl::close() {
  if (inputs_done_ != samples_ || targets_done_ != samples_)
    fail(ExitCode::data, "expected {} inputs and as many targets, found {} and {}", samples_, inputs_done_,
         targets_done_);
  const double count = static_cast<double>(samples_ * input_shape_.elements()) / static_cast<double>(sums_.size());
  std::vector<double> mean(sums_.size()), deviation(sums_.size());
  for (std::size_t c = 0; c < sums_.size(); ++c) {
    mean[c] = count > 0 ? sums_[c] / count : 0.0;
    deviation[c] = count > 0 ? std::sqrt(std::max(squares_[c] / count - mean[c] * mean[c], 0.0)) : 0.0;
    if (deviation[c] == 0) deviation[c] = 1.0;  // constant inputs: nothing to scale
  }
  write_attribute("mean", mean);
  write_attribute("std", deviation);
  inputs_.reset();
  targets_.reset();
  file_.complete();
  return fmt::format("{}: {} {} {}, {} {} {}, mean {:.4f}, std {:.4f}", options_.output, options_.inputs_name,
                     name_of(input_type_), input_shape_.batched(samples_).text(), options_.targets_name,
                     name_of(target_type_), target_shape_.batched(samples_).text(), fmt::join(mean, " "),
                     fmt::join(deviation, " "));
}

ConvertWriter::ConvertWriter(const ConvertOptions& options, std::int64_t samples, DType input_type,
                             const Shape& input_shape, DType target_type, const Shape& target_shape) {
  check_sizes(options, samples, input_shape, target_shape);
  impl_ = std::make_unique<Impl>(options, samples, input_type, input_shape, target_type, target_shape);
}
ConvertWriter::~ConvertWriter() = default;
void ConvertWriter::add_inputs(std::span<const std::byte> values) { impl_->add_inputs(values); }
void ConvertWriter::add_targets(std::span<const std::byte> values) {
  if (impl_->target_type_ == DType::f32)
    impl_->check_finite(impl_->options_.targets, impl_->target_shape_, impl_->targets_done_, values);
  impl_->add(impl_->targets_, impl_->target_type_, impl_->target_shape_, impl_->targets_done_, values);
}
std::string ConvertWriter::close() { return impl_->close(); }

}  // namespace muster::dataset
