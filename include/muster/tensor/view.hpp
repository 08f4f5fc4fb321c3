// A view of a plain (row-major) tensor: pointer, shape, type. Owns nothing.
#pragma once

#include <muster/tensor/dtype.hpp>
#include <muster/tensor/shape.hpp>

namespace muster {

struct TensorView {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

}  // namespace muster
