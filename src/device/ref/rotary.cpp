// Rotary positions (Su et al. 2021): pairs of features turned by an angle that grows with the position; the truth for
// other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Rotary : public RefOp {
 public:
  Rotary(const OpRequest& request, const RotarySpec& spec) : RefOp(request), spec_(spec) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext& context) override { turn(x(), y(), context, 1.0); }
  void backward(int, const RunContext& context) override {
    if (wants_grad()) turn(dy(), dx(), context, -1.0);
  }

 private:
  void turn(const float* from, float* to, const RunContext& context, double sign) const {
    const std::int64_t length = request_.inputs[0].shape[1], width = last_extent(), half = spec_.head_dim / 2;
    if (from != to) std::copy_n(from, output_elements(), to);
    for (std::int64_t at = 0; at < rows_ * length; ++at)
      for (std::int64_t h = 0; h < spec_.heads; ++h)
        for (std::int64_t i = 0; i < half; ++i) {
          const double position = static_cast<double>(context.position + at % length);
          const double angle =
              position * std::pow(static_cast<double>(spec_.base), -static_cast<double>(i) / static_cast<double>(half));
          float* pair = to + at * width + h * spec_.head_dim + i;
          const double a = static_cast<double>(pair[0]), b = static_cast<double>(pair[half]);
          pair[0] = static_cast<float>(a * std::cos(angle) - sign * b * std::sin(angle));
          pair[half] = static_cast<float>(sign * a * std::sin(angle) + b * std::cos(angle));
        }
  }
  RotarySpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_rotary(const OpRequest& request, const RotarySpec& spec) {
  return std::make_unique<Rotary>(request, spec);
}

}  // namespace muster::device::ref
