#include "device/cpu/image.hpp"

#include "device/cpu/format.hpp"

#include <muster/base/check.hpp>

namespace muster::device::cpu {

std::optional<ImageLayout> image_layout(const TensorDesc& tensor) {
  ImageLayout image;
  image.rows = tensor.shape[0];
  image.channels = tensor.shape[1];
  if (tensor.shape.rank() == 2) {
    if (!tensor.is_plain()) return std::nullopt;
    image.block = image.channels;
    return image;
  }
  if (tensor.shape.rank() != 4) return std::nullopt;
  image.pixels = tensor.shape[2] * tensor.shape[3];
  if (tensor.is_plain()) {
    image.blocks = image.channels;
    return image;
  }
  const memory::desc desc = desc_of(tensor);
  const memory::dims dims = dims_of(tensor.shape);
  const auto is = [&](memory::format_tag tag) { return desc == memory::desc(dims, memory::data_type::f32, tag); };
  if (is(memory::format_tag::nhwc)) image.block = image.channels;
  else if (is(memory::format_tag::nChw16c)) image.block = 16;
  else if (is(memory::format_tag::nChw8c)) image.block = 8;
  else return std::nullopt;
  image.blocks = (image.channels + image.block - 1) / image.block;
  return image;
}

TensorDesc like(const TensorDesc& model, const Shape& shape) {
  if (model.is_plain()) return {shape, DType::f32, nullptr};
  const auto image = image_layout(model);
  MUSTER_CHECK(image.has_value(), "a layout of another kind: {}", model.layout->describe());
  const bool is_channels_last = desc_of(model) == desc_of(tensor_in(model.shape, Format::nhwc));
  return tensor_in(shape, is_channels_last ? Format::nhwc : image->block == 8 ? Format::nChw8c : Format::nChw16c);
}

}  // namespace muster::device::cpu
