#include "device/cpu/format.hpp"

#include "device/cpu/dnnl_tensor.hpp"

namespace muster::device::cpu {

TensorDesc tensor_in(const Shape& shape, Format format) {
  if (shape.rank() != 4 || format == Format::plain) return {shape, DType::f32, nullptr};
  const auto tag = format == Format::nhwc     ? memory::format_tag::nhwc
                   : format == Format::nChw8c ? memory::format_tag::nChw8c
                                              : memory::format_tag::nChw16c;
  const memory::dims dims = dims_of(shape);
  return tensor_of(shape, memory::desc(dims, memory::data_type::f32, tag), dims);
}

}  // namespace muster::device::cpu
