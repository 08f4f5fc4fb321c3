// Inverted dropout. The mask is drawn per global sample and element, the same in forward and backward, so it is never
// stored; the truth for other backends.
#include "device/ref/ref.hpp"

#include <muster/base/rng.hpp>

namespace muster::device::ref {
namespace {

class Dropout : public RefOp {
 public:
  Dropout(const OpRequest& request, const DropoutSpec& spec) : RefOp(request), spec_(spec) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext& context) override { apply(x(), y(), context); }
  void backward(int, const RunContext& context) override {
    if (wants_grad()) apply(dy(), dx(), context);
  }

 private:
  void apply(const float* from, float* to, const RunContext& context) const {
    const std::int64_t elements = sample_of(output_.shape).elements();
    const float scale = 1.0f / (1.0f - spec_.rate);
    for (std::int64_t n = 0; n < rows_; ++n) {
      const RandomStream stream(
          context.seed, Purpose::dropout,
          (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(context.step),
          static_cast<std::uint32_t>(context.first_row + n));
      for (std::int64_t e = 0; e < elements; ++e) {
        const bool is_kept = !request_.is_training || stream.uniform(static_cast<std::uint64_t>(e)) >= spec_.rate;
        const float factor = request_.is_training ? scale : 1.0f;
        to[n * elements + e] = is_kept ? from[n * elements + e] * factor : 0.0f;
      }
    }
  }
  DropoutSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_dropout(const OpRequest& request, const DropoutSpec& spec) {
  return std::make_unique<Dropout>(request, spec);
}

}  // namespace muster::device::ref
