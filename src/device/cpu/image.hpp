// How the channels of an image batch lie in memory, for our own loops. Every layout we meet is "blocks of b channels":
// element (n, c, s) at ((n * blocks + c / b) * pixels + s) * b + c % b, with b = 1 for nchw, b = c for nhwc and [n, c],
// b = 8 or 16 for oneDNN's nChw8c and nChw16c. Channels beyond c in the last block are padding and stay zero.
#pragma once

#include "device/cpu/dnnl_tensor.hpp"

#include <cstdint>
#include <optional>

namespace muster::device::cpu {

struct ImageLayout {
  std::int64_t rows = 0, channels = 0, pixels = 1;
  std::int64_t block = 1, blocks = 1;

  std::int64_t row_elements() const { return blocks * pixels * block; }
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t s) const {
    return ((n * blocks + c / block) * pixels + s) * block + c % block;
  }
};

/// Empty for a layout of another kind.
std::optional<ImageLayout> image_layout(const TensorDesc& tensor);
/// A tensor of `shape` whose channels lie as those of `model`, which image_layout must know.
TensorDesc like(const TensorDesc& model, const Shape& shape);

}  // namespace muster::device::cpu
