// Counting elements, out of line: the overflow check is not for every inlined copy of a shape.
#include <muster/tensor/shape.hpp>

#include <muster/base/error.hpp>

namespace muster {

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (std::int64_t extent : extents_)
    if (__builtin_mul_overflow(product, extent, &product))
      fail(ExitCode::usage, "shape {} has more elements than can be counted", text());
  return product;
}

}  // namespace muster
