// Rotary positions; backward turns the other way.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Rotary : public CudaOp {
 public:
  Rotary(Context& context, const OpRequest& request, const RotarySpec& spec) : CudaOp(context, request) {
    const std::int64_t length = request.inputs[0].shape[1];
    shape_ = {rows_ * length, length, last_extent(), spec.heads, spec.head_dim, 0, spec.base};
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext& run) override { turn(x(), y(), run, 1.0f); }
  void backward(int, const RunContext& run) override {
    if (dx()) turn(dy(), dx(), run, -1.0f);
  }

 private:
  void turn(const float* from, float* to, const RunContext& run, float sign) {
    shape_.first_position = run.position;
    CUDA_CHECK(rotate(from, to, shape_, sign, stream()));
  }
  RotaryShape shape_{};
};

}  // namespace

std::unique_ptr<Op> make_rotary(Context& context, const OpRequest& request, const RotarySpec& spec) {
  return std::make_unique<Rotary>(context, request, spec);
}

}  // namespace muster::device::cuda
