// Max pooling over channel-blocked and channels-last images by own loops (the library's is bound by its bookkeeping,
// not by memory). One vector holds the channels of a block; which tap of the window was largest is kept in one byte per
// output element. A plane (one block of one sample) is worked on by one thread.
#include "device/cpu/cpu_op.hpp"
#include "device/cpu/image.hpp"
#include "device/cpu/lanes.hpp"

#include <array>

namespace muster::device::cpu {
namespace {

struct Geometry {
  ImageLayout in, out;
  std::array<std::int64_t, 2> in_size, out_size, kernel, stride, padding;

  /// Windows cover every pixel exactly once, all within the image.
  bool is_tiling() const {
    for (std::size_t axis = 0; axis < 2; ++axis)
      if (padding[axis] != 0 || kernel[axis] != stride[axis] || out_size[axis] * stride[axis] != in_size[axis])
        return false;
    return true;
  }
  /// Taps [first, last) of window i that lie within the image.
  Range taps(std::size_t axis, std::int64_t i) const {
    const std::int64_t start = i * stride[axis] - padding[axis];
    return {std::max<std::int64_t>(0, -start), std::min(kernel[axis], in_size[axis] - start)};
  }
};

/// The largest of the taps high x wide of the window at x, and which it is; the first among equals.
template <int Width>
void largest(const float* x, std::int64_t row, std::int64_t lanes, Range high, Range wide, std::int64_t kernel_width,
             float* y, std::uint8_t* tap_of) {
  using V = Lanes<Width>;
  auto best = V::load(x + high.begin * row + wide.begin * lanes);
  typename V::Ints index = {};
  index += static_cast<std::int32_t>(high.begin * kernel_width + wide.begin);
  for (std::int64_t a = high.begin; a < high.end; ++a)
    for (std::int64_t b = wide.begin; b < wide.end; ++b) {
      const auto value = V::load(x + a * row + b * lanes);
      const typename V::Ints tap = static_cast<std::int32_t>(a * kernel_width + b) - typename V::Ints{};
      index = value > best ? tap : index;
      best = value > best ? value : best;
    }
  V::store(y, best);
  V::store(tap_of, index);
}

template <int Width>
void forward_plane(const Geometry& g, const float* x, float* y, std::uint8_t* tap_of) {
  const std::int64_t lanes = g.in.block, row = g.in_size[1] * lanes;
  for (std::int64_t i = 0; i < g.out_size[0]; ++i)
    for (std::int64_t k = 0; k < g.out_size[1]; ++k) {
      const Range high = g.taps(0, i), wide = g.taps(1, k);
      const float* from = x + (i * g.stride[0] - g.padding[0]) * row + (k * g.stride[1] - g.padding[1]) * lanes;
      const std::int64_t to = (i * g.out_size[1] + k) * lanes;
      const bool is_two = g.kernel[0] == 2 && high.size() == 2 && g.kernel[1] == 2 && wide.size() == 2;
      if (is_two)
        largest<Width>(from, row, lanes, {0, 2}, {0, 2}, 2, y + to, tap_of + to);  // the common case, unrolled
      else largest<Width>(from, row, lanes, high, wide, g.kernel[1], y + to, tap_of + to);
    }
}

template <int Width>
void backward_plane(const Geometry& g, const float* dy, const std::uint8_t* tap_of, float* dx, bool is_tiling) {
  using V = Lanes<Width>;
  const std::int64_t lanes = g.in.block, row = g.in_size[1] * lanes;
  if (!is_tiling)
    for (std::int64_t s = 0; s < g.in.pixels; ++s) std::fill_n(dx + s * lanes, Width, 0.0f);
  for (std::int64_t i = 0; i < g.out_size[0]; ++i)
    for (std::int64_t k = 0; k < g.out_size[1]; ++k) {
      const Range high = g.taps(0, i), wide = g.taps(1, k);
      float* window = dx + (i * g.stride[0] - g.padding[0]) * row + (k * g.stride[1] - g.padding[1]) * lanes;
      const std::int64_t here = (i * g.out_size[1] + k) * lanes;
      const auto grad = V::load(dy + here);
      const auto index = V::load_bytes(tap_of + here);
      for (std::int64_t a = high.begin; a < high.end; ++a)
        for (std::int64_t b = wide.begin; b < wide.end; ++b) {
          float* to = window + a * row + b * lanes;
          const auto tap = static_cast<std::int32_t>(a * g.kernel[1] + b);
          const typename V::Floats share = index == tap ? grad : typename V::Floats{};
          V::store(to, is_tiling ? share : V::load(to) + share);
        }
    }
}

class MaxPool2d : public CpuOp {
 public:
  MaxPool2d(const OpRequest& request, const Pool2dSpec& spec, const ImageLayout& image) : CpuOp(request) {
    output_ = like(request.inputs[0], output_shape_);
    const Shape& in = request.inputs[0].shape;
    geometry_ = {image,
                 *image_layout(output_),
                 {in[2], in[3]},
                 {output_shape_[2], output_shape_[3]},
                 spec.kernel,
                 spec.stride,
                 {spec.padding[0], spec.padding[1]}};
    const auto taps = static_cast<std::size_t>(padded_output());
    (request.is_training ? traits_.saved_bytes : traits_.scratch_bytes) = taps;
  }

  std::string implementation() const override { return fmt::format("own, blocks of {}", geometry_.in.block); }

  void forward(int, const RunContext&) override {
    auto* tap_of = reinterpret_cast<std::uint8_t*>(request_.is_training ? saved() : scratch());
    each_piece([&](auto width, std::int64_t in, std::int64_t out) {
      forward_plane<decltype(width)::value>(geometry_, x() + in, y() + out, tap_of + out);
    });
  }

  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    const auto* tap_of = reinterpret_cast<const std::uint8_t*>(saved());
    const bool is_tiling = geometry_.is_tiling();
    each_piece([&](auto width, std::int64_t in, std::int64_t out) {
      backward_plane<decltype(width)::value>(geometry_, dy() + out, tap_of + out, dx() + in, is_tiling);
    });
  }

 private:
  /// Calls body(width, offset of the input, of the output) for every plane, its channels in pieces of 16, 8 and 1.
  template <class Body>
  void each_piece(Body body) const {
    const ImageLayout &in = geometry_.in, &out = geometry_.out;
    parallel_items(threads_, in.rows * in.blocks, in.rows * in.row_elements(), [&](std::int64_t plane) {
      const std::int64_t from = plane * in.pixels * in.block, to = plane * out.pixels * out.block;
      std::int64_t lane = 0;
      for (; lane + 16 <= in.block; lane += 16) body(std::integral_constant<int, 16>(), from + lane, to + lane);
      for (; lane + 8 <= in.block; lane += 8) body(std::integral_constant<int, 8>(), from + lane, to + lane);
      for (; lane < in.block; ++lane) body(std::integral_constant<int, 1>(), from + lane, to + lane);
    });
  }

  Geometry geometry_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool2d(const OpRequest& request, const Pool2dSpec& spec) {
  const auto image = image_layout(request.inputs[0]);
  const bool is_ours = spec.kind == Pool2dSpec::Kind::max && !spec.is_global && image && image->block >= 8 &&
                       spec.kernel[0] * spec.kernel[1] <= 256;
  if (!is_ours) return nullptr;
  return std::make_unique<MaxPool2d>(request, spec, *image);
}

}  // namespace muster::device::cpu
