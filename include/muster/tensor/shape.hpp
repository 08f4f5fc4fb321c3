// Shapes: a short list of extents, outermost first. A batch of images is [n, channels, height, width].
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  std::size_t rank() const { return extents_.size(); }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::int64_t& operator[](std::size_t axis) { return extents_[axis]; }
  /// Number of elements; 1 for a scalar (rank 0). Throws Error(usage) where it does not fit 63 bits.
  std::int64_t elements() const;
  const std::vector<std::int64_t>& extents() const { return extents_; }
  auto begin() const { return extents_.begin(); }
  auto end() const { return extents_.end(); }
  bool operator==(const Shape&) const = default;

  /// [n, this...]: the shape of n samples of this shape.
  Shape batched(std::int64_t n) const {
    std::vector<std::int64_t> e{n};
    e.insert(e.end(), extents_.begin(), extents_.end());
    return Shape(std::move(e));
  }
  /// "[1, 28, 28]"
  std::string text() const { return fmt::format("[{}]", fmt::join(extents_, ", ")); }

 private:
  std::vector<std::int64_t> extents_;
};

}  // namespace muster
