// Tensors in a named oneDNN format, for tests and measurements: they need every layout that an op may meet, not only
// those that this machine's kernels choose. No oneDNN type appears here.
#pragma once

#include <muster/device/layout.hpp>

namespace muster::device::cpu {

enum class Format : std::uint8_t { plain, nhwc, nChw8c, nChw16c };

/// A float32 tensor of `shape` in `format`; tensors that are no images ([n, c, h, w]) are plain whatever was asked for.
TensorDesc tensor_in(const Shape& shape, Format format);

}  // namespace muster::device::cpu
