// Activations that are not fused into another op; the curves are in elementwise.cu.
#include "device/cuda/cuda_op.hpp"

#include <muster/base/check.hpp>

namespace muster::device::cuda {
namespace {

Curve curve_of(const ActivationSpec& spec) {
  switch (spec.kind) {
    case Activation::relu:
      return Curve::relu;
    case Activation::leaky_relu:
      return Curve::leaky_relu;
    case Activation::gelu:
      return spec.is_gelu_tanh ? Curve::gelu_tanh : Curve::gelu;
    case Activation::silu:
      return Curve::silu;
    case Activation::tanh:
      return Curve::tanh;
    case Activation::sigmoid:
      return Curve::sigmoid;
    case Activation::none:
      break;
  }
  MUSTER_CHECK(spec.kind == Activation::none, "activation {}", static_cast<int>(spec.kind));
  return Curve::relu;  // not used: none passes
}

class ActivationOp : public CudaOp {
 public:
  ActivationOp(Context& context, const OpRequest& request, const ActivationSpec& spec)
      : CudaOp(context, request), spec_(spec), curve_(curve_of(spec)) {
    traits_.backward_reads_input[0] = true;
    traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext&) override {
    if (spec_.kind == Activation::none) pass(x(), y());
    else CUDA_CHECK(apply_curve(curve_, spec_.slope, x(), y(), elements(), stream()));
  }
  void backward(int, const RunContext&) override {
    if (!dx()) return;
    if (spec_.kind == Activation::none) pass(dy(), dx());
    else CUDA_CHECK(apply_curve_gradient(curve_, spec_.slope, x(), dy(), dx(), elements(), stream()));
  }

 private:
  ActivationSpec spec_;
  Curve curve_;
};

}  // namespace

std::unique_ptr<Op> make_activation(Context& context, const OpRequest& request, const ActivationSpec& spec) {
  return std::make_unique<ActivationOp>(context, request, spec);
}

}  // namespace muster::device::cuda
