#include "device/cpu/dnnl_tensor.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::device::cpu {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

bool DnnlLayout::equals(const Layout& other) const {
  const auto* same = dynamic_cast<const DnnlLayout*>(&other);
  return same && same->desc_ == desc_;
}

std::string DnnlLayout::describe() const {
  // oneDNN's own notation: axes from the outermost stride to the innermost, capital where a part of the axis is inner.
  const Blocks blocks = blocks_of(desc_);
  std::vector<std::size_t> axes(blocks.strides.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  std::stable_sort(axes.begin(), axes.end(),
                   [&](std::size_t a, std::size_t b) { return blocks.strides[a] > blocks.strides[b]; });
  std::string text;
  for (std::size_t axis : axes) {
    const auto is_axis = [axis](memory::dim other) { return static_cast<std::size_t>(other) == axis; };
    const bool is_blocked = std::any_of(blocks.inner_axes.begin(), blocks.inner_axes.end(), is_axis);
    text += static_cast<char>((is_blocked ? 'A' : 'a') + static_cast<int>(axis));
  }
  for (std::size_t i = 0; i < blocks.inner_axes.size(); ++i)
    text += fmt::format("{}{}", blocks.inner_sizes[i], static_cast<char>('a' + static_cast<int>(blocks.inner_axes[i])));
  return text;
}

memory::dims dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

memory::desc plain_desc(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return memory::desc(dims, memory::data_type::f32, strides);
}

memory::desc any_desc(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
}

memory::desc desc_of(const TensorDesc& tensor) { return desc_of(tensor, dims_of(tensor.shape)); }

memory::desc desc_of(const TensorDesc& tensor, const memory::dims& dims) {
  if (tensor.is_plain()) return plain_desc(dims);
  const auto* layout = dynamic_cast<const DnnlLayout*>(tensor.layout.get());
  MUSTER_CHECK(layout != nullptr, "a tensor of another backend reached cpu");
  return layout->desc();
}

TensorDesc tensor_of(const Shape& shape, const memory::desc& desc, const memory::dims& dims) {
  TensorDesc tensor{shape, DType::f32, nullptr};
  if (desc != plain_desc(dims)) tensor.layout = std::make_shared<DnnlLayout>(desc, dims);
  return tensor;
}

namespace {

void copy(const memory::desc& from, const void* source, const memory::desc& to, void* destination) {
  translated("reorder", [&] {
    memory in(from, engine(), const_cast<void*>(source)), out(to, engine(), destination);
    dnnl::reorder(in, out).execute(stream(), in, out);
    stream().wait();
  });
}

const memory::dims& dims_of_layout(const TensorDesc& tensor) {
  const auto* layout = dynamic_cast<const DnnlLayout*>(tensor.layout.get());
  MUSTER_CHECK(layout != nullptr, "a tensor of another backend reached cpu");
  return layout->dims();
}

}  // namespace

void copy_to_plain(const TensorDesc& tensor, const void* source, float* plain) {
  if (tensor.is_plain()) std::memcpy(plain, source, tensor.bytes());
  else copy(desc_of(tensor), source, plain_desc(dims_of_layout(tensor)), plain);
}

void copy_from_plain(const TensorDesc& tensor, const float* plain, void* destination) {
  if (tensor.is_plain()) std::memcpy(destination, plain, tensor.bytes());
  else copy(plain_desc(dims_of_layout(tensor)), plain, desc_of(tensor), destination);
}

primitive_attr user_scratchpad() {
  primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void BoundPrimitive::bind(int argument, const memory::desc& desc, const void* data) {
  // The pointers are copied into the argument list once: memory objects hold handles, not addresses of themselves.
  memories_.emplace_back(desc, engine(), const_cast<void*>(data));
  arguments_.push_back({argument, memories_.back().get()});
}

void BoundPrimitive::run() const {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success)
    fail_library(ExitCode::device, "oneDNN", "dnnl_primitive_execute", status, "execution failed");
}

Reorder::Reorder(const memory::desc& from, const memory::desc& to) : from_(from), to_(to) {
  if (from == to) return;
  primitive_ = translated("reorder", [&] {
    const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, user_scratchpad());
    return BoundPrimitive(dnnl::reorder(desc), desc);
  });
}

void Reorder::bind(const void* from, void* to, void* scratch) {
  if (!is_needed()) return;
  primitive_.clear_arguments();
  primitive_.bind(DNNL_ARG_FROM, from_, from);
  primitive_.bind(DNNL_ARG_TO, to_, to);
  primitive_.bind_scratch(scratch);
}

}  // namespace muster::device::cpu
