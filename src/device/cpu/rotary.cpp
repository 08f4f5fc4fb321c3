// Rotary positions with a table of angles made once per starting position.
#include "device/cpu/cpu_op.hpp"

#include <cmath>

namespace muster::device::cpu {
namespace {

class Rotary : public CpuOp {
 public:
  Rotary(const OpRequest& request, const RotarySpec& spec)
      : CpuOp(request), spec_(spec), length_(samples_[0][0]), width_(samples_[0][1]), half_(spec.head_dim / 2) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
    cos_.resize(static_cast<std::size_t>(length_ * half_));
    sin_.resize(cos_.size());
    fill_table(0);
  }
  void forward(int, const RunContext& context) override {
    if (context.position != first_) fill_table(context.position);
    turn(x(), y(), 1.0f);
  }
  void backward(int, const RunContext&) override {
    if (wants_grad()) turn(dy(), dx(), -1.0f);
  }

 private:
  void fill_table(std::int64_t first) {
    first_ = first;
    for (std::int64_t t = 0; t < length_; ++t)
      for (std::int64_t i = 0; i < half_; ++i) {
        const double angle =
            static_cast<double>(first + t) *
            std::pow(static_cast<double>(spec_.base), -static_cast<double>(i) / static_cast<double>(half_));
        cos_[static_cast<std::size_t>(t * half_ + i)] = static_cast<float>(std::cos(angle));
        sin_[static_cast<std::size_t>(t * half_ + i)] = static_cast<float>(std::sin(angle));
      }
  }

  void turn(const float* from, float* to, float sign) const {
    parallel_items(threads_, rows_ * length_, rows_ * length_ * width_, [&](std::int64_t at) {
      const float *cosines = cos_.data() + at % length_ * half_, *sines = sin_.data() + at % length_ * half_;
      for (std::int64_t h = 0; h < spec_.heads; ++h) {
        const std::int64_t start = at * width_ + h * spec_.head_dim;
#pragma omp simd
        for (std::int64_t i = 0; i < half_; ++i) {
          const float a = from[start + i], b = from[start + half_ + i], s = sign * sines[i];
          to[start + i] = a * cosines[i] - b * s;
          to[start + half_ + i] = a * s + b * cosines[i];
        }
      }
      const std::int64_t rest = spec_.heads * spec_.head_dim;
      if (from != to) std::copy_n(from + at * width_ + rest, width_ - rest, to + at * width_ + rest);
    });
  }

  RotarySpec spec_;
  std::int64_t length_, width_, half_, first_ = 0;
  std::vector<float> cos_, sin_;  // [position, pair]
};

}  // namespace

std::unique_ptr<Op> make_rotary(const OpRequest& request, const RotarySpec& spec) {
  return std::make_unique<Rotary>(request, spec);
}

}  // namespace muster::device::cpu
