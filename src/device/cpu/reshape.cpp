// The same elements in plain order: nothing to do for a plain input that shares memory with the output.
#include "device/cpu/adapter.hpp"

#include <cstring>

namespace muster::device::cpu {
namespace {

class Reshape : public CpuOp {
 public:
  Reshape(const OpRequest& request, const ReshapeSpec&) : CpuOp(request) {
    adapter_ = LayoutAdapter(request.inputs[0], {request.inputs[0].shape, DType::f32, nullptr});
    traits_.scratch_bytes = adapter_.scratchpad_bytes();
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = !adapter_.is_needed();
  }
  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    adapter_.bind_value(x(), y(), scratch());
    if (wants_grad()) adapter_.bind_grad(dy(), dx(), scratch());
  }
  void forward(int, const RunContext&) override {
    if (adapter_.is_needed()) adapter_.run_value();
    else if (x() != y()) std::memcpy(y(), x(), output_.bytes());
  }
  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    if (adapter_.is_needed()) adapter_.run_grad();
    else if (dx() != dy()) std::memcpy(dx(), dy(), output_.bytes());
  }

 private:
  LayoutAdapter adapter_;
};

}  // namespace

std::unique_ptr<Op> make_reshape(const OpRequest& request, const ReshapeSpec& spec) {
  return std::make_unique<Reshape>(request, spec);
}

}  // namespace muster::device::cpu
