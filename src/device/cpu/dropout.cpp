// Dropout in the layout of the input. The mask of an element depends on its plain index (see DropoutSpec), one Philox
// block serves four neighbours; it is kept as one byte per element, in memory order, for the backward pass.
#include "device/cpu/adapter.hpp"
#include "device/cpu/image.hpp"

#include <muster/base/rng.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace muster::device::cpu {
namespace {

class Dropout : public CpuOp {
 public:
  Dropout(const OpRequest& request, const DropoutSpec& spec) : CpuOp(request), spec_(spec) {
    working_ = request.inputs[0];
    if (!working_.is_plain() && !image_layout(working_)) working_.layout = nullptr;
    if (!working_.is_plain()) image_ = image_layout(working_);
    output_ = working_;
    adapter_ = LayoutAdapter(request.inputs[0], working_);
    Pieces in_scratch;
    value_at_ = in_scratch.add(adapter_.value_bytes());
    scratchpad_at_ = in_scratch.add(adapter_.scratchpad_bytes());
    traits_.scratch_bytes = in_scratch.bytes();
    if (request.is_training) traits_.saved_bytes = static_cast<std::size_t>(padded_output());
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = !adapter_.is_needed();
  }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    x_ = x();
    dx_ = wants_grad() ? dx() : nullptr;
    if (!adapter_.is_needed()) return;
    x_ = reinterpret_cast<float*>(scratch(value_at_));
    adapter_.bind_value(x(), const_cast<float*>(x_), scratch(scratchpad_at_));
    if (!dx_) return;
    dx_ = reinterpret_cast<float*>(scratch(value_at_));
    adapter_.bind_grad(dx_, dx(), scratch(scratchpad_at_));
  }

  void forward(int, const RunContext& context) override {
    adapter_.run_value();
    if (!request_.is_training) {
      if (x_ != y()) std::memcpy(y(), x_, output_.bytes());
      return;
    }
    auto* mask = reinterpret_cast<std::uint8_t*>(saved());
    parallel_items(threads_, rows_, padded_output(), [&](std::int64_t n) { draw_row(context, n, mask); });
    apply(x_, mask, y());
  }

  void backward(int, const RunContext&) override {
    if (!dx_) return;
    apply(dy(), reinterpret_cast<const std::uint8_t*>(saved()), dx_);
    adapter_.run_grad();
  }

 private:
  void draw_row(const RunContext& context, std::int64_t n, std::uint8_t* mask) const {
    const RandomStream stream(
        context.seed, Purpose::dropout,
        (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(context.step),
        static_cast<std::uint32_t>(context.first_row + n));
    const std::int64_t elements = samples_[0].elements();
    std::array<std::uint32_t, 256> words;
    for (std::int64_t e = 0; e < elements; e += words.size()) {
      const std::int64_t count = std::min<std::int64_t>(words.size(), elements - e);
      stream.fill(static_cast<std::uint32_t>(e / 4), {words.data(), static_cast<std::size_t>(count)});
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t j = e + k;
        const std::int64_t at = image_ ? image_->at(n, j / image_->pixels, j % image_->pixels) : n * elements + j;
        mask[at] = RandomStream::unit(words[static_cast<std::size_t>(k)]) >= spec_.rate ? 1 : 0;
      }
    }
  }

  void apply(const float* from, const std::uint8_t* mask, float* to) const {
    const float scale = 1.0f / (1.0f - spec_.rate);
    parallel_ranges(threads_, padded_output(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) to[i] = mask[i] != 0 ? from[i] * scale : 0.0f;
    });
  }

  DropoutSpec spec_;
  TensorDesc working_;
  std::optional<ImageLayout> image_;  // empty: plain
  LayoutAdapter adapter_;
  std::size_t value_at_ = 0, scratchpad_at_ = 0;
  const float* x_ = nullptr;
  float* dx_ = nullptr;
};

}  // namespace

std::unique_ptr<Op> make_dropout(const OpRequest& request, const DropoutSpec& spec) {
  return std::make_unique<Dropout>(request, spec);
}

}  // namespace muster::device::cpu
