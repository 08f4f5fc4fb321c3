// How a tensor's elements lie in memory. A null layout is plain: row-major, no padding. Anything else is a format of
// one backend (for example oneDNN's channel blocks): only ops of that backend read it, and Backend::to_plain converts.
// A gradient always has the layout of the tensor it belongs to.
#pragma once

#include <muster/tensor/dtype.hpp>
#include <muster/tensor/shape.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace muster::device {

class Layout {
 public:
  virtual ~Layout() = default;
  virtual std::size_t bytes() const = 0;  ///< including padding
  virtual bool equals(const Layout& other) const = 0;
  virtual std::string describe() const = 0;  ///< e.g. "aBcd16b"
};
using LayoutPtr = std::shared_ptr<const Layout>;

/// Shape (batch first), element type and layout of a tensor; owns no memory.
struct TensorDesc {
  Shape shape;
  DType dtype = DType::f32;
  LayoutPtr layout;  ///< null: plain

  bool is_plain() const { return layout == nullptr; }
  std::size_t bytes() const {
    return layout ? layout->bytes() : static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
  /// Elements including padding: what elementwise code runs over.
  std::int64_t padded_elements() const { return static_cast<std::int64_t>(bytes() / size_of(dtype)); }
  bool same_layout(const TensorDesc& other) const {
    if (shape != other.shape || dtype != other.dtype) return false;
    if (!layout || !other.layout) return layout == other.layout;
    return layout->equals(*other.layout);
  }
};

}  // namespace muster::device
