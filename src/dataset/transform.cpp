// Scaling and augmentation of one sample. Draws depend on seed, epoch and sample alone, never on which rank or thread
// transforms it.
#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>
#include <muster/dataset/batch_queue.hpp>

#include <algorithm>
#include <cstring>

namespace muster::dataset {
namespace {

// Elements of a sample's augmentation stream.
constexpr std::uint64_t crop_row = 0, crop_column = 1, flip_draw = 2, cutout_draw = 3, cutout_row = 4,
                        cutout_column = 5;

template <class Stored>
void scale(const void* stored, std::int64_t channels, std::int64_t image, const float* scales, const float* shifts,
           float* out) {
  const auto* from = static_cast<const Stored*>(stored);
  for (std::int64_t c = 0; c < channels; ++c) {
    const float a = scales[c], b = shifts[c];
#pragma omp simd
    for (std::int64_t i = 0; i < image; ++i) out[c * image + i] = static_cast<float>(from[c * image + i]) * a + b;
  }
}

void scale_any(DType dtype, const void* stored, std::int64_t channels, std::int64_t image, const float* scales,
               const float* shifts, float* out) {
  switch (dtype) {
    case DType::u8:
      return scale<std::uint8_t>(stored, channels, image, scales, shifts, out);
    case DType::i8:
      return scale<std::int8_t>(stored, channels, image, scales, shifts, out);
    case DType::u16:
      return scale<std::uint16_t>(stored, channels, image, scales, shifts, out);
    case DType::i16:
      return scale<std::int16_t>(stored, channels, image, scales, shifts, out);
    case DType::i32:
      return scale<std::int32_t>(stored, channels, image, scales, shifts, out);
    case DType::i64:
      return scale<std::int64_t>(stored, channels, image, scales, shifts, out);
    case DType::f32:
      return scale<float>(stored, channels, image, scales, shifts, out);
    case DType::f64:
      return scale<double>(stored, channels, image, scales, shifts, out);
    case DType::bf16:
      break;
  }
}

double value_for(const std::vector<double>& values, std::int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
}

void check_channels(const std::vector<double>& values, std::int64_t channels, const char* what) {
  if (values.size() == 1 || static_cast<std::int64_t>(values.size()) == channels) return;
  fail(ExitCode::data, "data.transforms.normalise: expected {} for each of {} channels or one for all, found {}", what,
       channels, values.size());
}

}  // namespace

Transform::Transform(const TransformOptions& options, const Dataset& dataset, std::uint64_t seed, bool is_training)
    : options_(options),
      shape_(dataset.input_shape()),
      dtype_(dataset.input_dtype()),
      seed_(seed),
      is_training_(is_training) {
  const bool is_image = shape_.rank() == 3;
  if (!is_image && (options_.random_crop || options_.horizontal_flip || options_.cutout))
    fail(ExitCode::data, "data.transforms: crop, flip and cutout expect images [channels, height, width], found {}",
         shape_.text());
  const std::int64_t channels = shape_.rank() >= 2 ? shape_[0] : 1;
  scale_.assign(static_cast<std::size_t>(channels), 1.0f);
  shift_.assign(static_cast<std::size_t>(channels), 0.0f);
  if (!options_.normalise) return;
  NormaliseOptions normalise = *options_.normalise;
  if (normalise.is_auto) {
    const Statistics stored = dataset.statistics();
    if (stored.mean.empty() || stored.std.empty())
      fail(ExitCode::data,
           "{}: no mean and std are stored with it; write it with muster convert, or give data.transforms: [normalise: "
           "{{mean: ..., std: ...}}]",
           dataset.describe());
    normalise.mean = stored.mean;
    normalise.std = stored.std;
  }
  check_channels(normalise.mean, channels, "a mean");
  check_channels(normalise.std, channels, "a std");
  const double unit = dtype_ == DType::u8 ? 1.0 / 255.0 : 1.0;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double deviation = value_for(normalise.std, c);
    if (!(deviation > 0))
      fail(ExitCode::data, "data.transforms.normalise: expected a std above 0, found {} for channel {}", deviation, c);
    scale_[static_cast<std::size_t>(c)] = static_cast<float>(unit / deviation);
    shift_[static_cast<std::size_t>(c)] = static_cast<float>(-value_for(normalise.mean, c) / deviation);
  }
}

void Transform::apply(const void* stored, std::int64_t epoch, std::int64_t index, float* out) const {
  const auto channels = static_cast<std::int64_t>(scale_.size());
  const std::int64_t image = shape_.elements() / channels;
  scale_any(dtype_, stored, channels, image, scale_.data(), shift_.data(), out);
  if (!is_training_) return;
  const RandomStream random(seed_, Purpose::augment, static_cast<std::uint64_t>(index),
                            static_cast<std::uint32_t>(epoch));
  if (options_.random_crop) crop(random, out);
  if (options_.horizontal_flip && random.uniform(flip_draw) < static_cast<float>(options_.horizontal_flip->probability))
    flip(out);
  if (options_.cutout && random.uniform(cutout_draw) < static_cast<float>(options_.cutout->probability))
    cut(random, out);
}

/// Zero-pads by `padding` on all sides and keeps a window of the original size at a random place: a shift in place.
void Transform::crop(const RandomStream& random, float* out) const {
  const std::int64_t h = shape_[1], w = shape_[2], padding = options_.random_crop->padding;
  const auto places = static_cast<std::uint32_t>(2 * padding + 1);
  const std::int64_t down = static_cast<std::int64_t>(random.below(crop_row, places)) - padding;
  const std::int64_t right = static_cast<std::int64_t>(random.below(crop_column, places)) - padding;
  const std::int64_t first = std::max<std::int64_t>(0, -right), last = std::min(w, w - right);  // columns with a source
  for (std::int64_t c = 0; c < shape_[0]; ++c) {
    float* plane = out + c * h * w;
    for (std::int64_t i = 0; i < h; ++i) {
      const std::int64_t row = down >= 0 ? i : h - 1 - i;  // so that no row is overwritten before it is read
      const std::int64_t source = row + down;
      float* to = plane + row * w;
      if (source < 0 || source >= h || first >= last) {
        std::fill(to, to + w, 0.0f);
        continue;
      }
      std::memmove(to + first, plane + source * w + first + right,
                   static_cast<std::size_t>(last - first) * sizeof(float));
      std::fill(to, to + first, 0.0f);
      std::fill(to + last, to + w, 0.0f);
    }
  }
}

void Transform::flip(float* out) const {
  const std::int64_t w = shape_[2];
  for (std::int64_t row = 0; row < shape_[0] * shape_[1]; ++row) std::reverse(out + row * w, out + (row + 1) * w);
}

/// The square's centre is uniform over the image; what lies outside is cut off.
void Transform::cut(const RandomStream& random, float* out) const {
  const std::int64_t h = shape_[1], w = shape_[2], size = options_.cutout->size;
  const std::int64_t top =
      static_cast<std::int64_t>(random.below(cutout_row, static_cast<std::uint32_t>(h))) - size / 2;
  const std::int64_t left =
      static_cast<std::int64_t>(random.below(cutout_column, static_cast<std::uint32_t>(w))) - size / 2;
  const std::int64_t first = std::max<std::int64_t>(left, 0), last = std::min(left + size, w);
  for (std::int64_t c = 0; c < shape_[0]; ++c)
    for (std::int64_t i = std::max<std::int64_t>(top, 0); i < std::min(top + size, h); ++i)
      std::fill(out + (c * h + i) * w + first, out + (c * h + i) * w + last, 0.0f);
}

}  // namespace muster::dataset
