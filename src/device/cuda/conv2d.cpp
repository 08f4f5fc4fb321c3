// Convolution: by cuDNN where it has a strict and deterministic engine for the shape, with bias and relu in the same
// kernel where it can; else by kernels of our own, which take every spec.
#include "device/cuda/conv_plans.hpp"
#include "device/cuda/cuda_op.hpp"

#include <optional>

namespace muster::device::cuda {
namespace {

ConvShape shape_of(const OpRequest& request, const Conv2dSpec& spec, const Shape& out) {
  const Shape& in = request.inputs[0].shape;
  return {in[0],
          in[1],
          in[2],
          in[3],
          spec.filters,
          out[2],
          out[3],
          spec.groups,
          spec.kernel[0],
          spec.kernel[1],
          spec.stride[0],
          spec.stride[1],
          spec.dilation[0],
          spec.dilation[1],
          spec.padding[0],
          spec.padding[1]};
}

class Conv2d : public CudaOp {
 public:
  Conv2d(Context& context, const OpRequest& request, const Conv2dSpec& spec)
      : CudaOp(context, request), spec_(spec), shape_(shape_of(request, spec, output_.shape)) {
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = has_relu();
    traits_.may_overwrite_output_grad = has_relu();
    ConvPlans& plans = context.conv_plans();
    if (spec.has_bias) fused_ = plans.get(has_relu() ? ConvPass::fused_bias_relu : ConvPass::fused_bias, shape_);
    if (!fused_) forward_ = plans.get(ConvPass::forward, shape_);
    if (!request.is_training) return;
    weight_gradient_ = plans.get(ConvPass::weight_gradient, shape_);
    if (may_want_grad()) input_gradient_ = plans.get(ConvPass::input_gradient, shape_);
  }
  std::string implementation() const override {
    const bool has_all =
        (fused_ || forward_) && (!request_.is_training || weight_gradient_) && (!may_want_grad() || input_gradient_);
    return !has_all ? "own" : fused_ ? "cudnn, fused" : "cudnn";
  }
  void bind(const OpBuffers& buffers) override {
    CudaOp::bind(buffers);
    run_fused_ = run_of(fused_, buffers.inputs[0], buffers.params[0], y(), true);
    run_forward_ = run_of(forward_, buffers.inputs[0], buffers.params[0], y());
    if (!request_.is_training) return;
    run_weight_gradient_ = run_of(weight_gradient_, buffers.inputs[0], buffers.param_grads[0], dy());
    if (dx()) run_input_gradient_ = run_of(input_gradient_, dx(), buffers.params[0], dy());
  }
  void forward(int, const RunContext&) override {
    const float* bias = spec_.has_bias ? buffers_.params[1] : nullptr;
    if (run_fused_) return run_fused_->run(context_.cudnn());
    if (!run_forward_) {
      CUDA_CHECK(convolve(x(), buffers_.params[0], bias, y(), has_relu(), shape_, stream()));
      return;
    }
    run_forward_->run(context_.cudnn());
    CUDA_CHECK(finish_convolution(y(), bias, has_relu(), shape_, stream()));
  }
  void backward(int, const RunContext&) override {
    auto* grad = static_cast<float*>(const_cast<void*>(buffers_.output_grad));
    if (has_relu()) CUDA_CHECK(mask_by_relu(y(), grad, grad, elements(), stream()));
    if (spec_.has_bias) CUDA_CHECK(convolve_bias_gradient(grad, buffers_.param_grads[1], shape_, stream()));
    if (run_weight_gradient_) run_weight_gradient_->run(context_.cudnn());
    else CUDA_CHECK(convolve_weight_gradient(x(), grad, buffers_.param_grads[0], shape_, stream()));
    if (!dx()) return;
    if (run_input_gradient_) run_input_gradient_->run(context_.cudnn());
    else CUDA_CHECK(convolve_input_gradient(grad, buffers_.params[0], dx(), shape_, stream()));
  }

 private:
  bool has_relu() const { return spec_.activation == Activation::relu; }

  /// Nothing without a plan.
  std::optional<CudnnRun> run_of(const std::shared_ptr<CudnnPlan>& plan, const void* x, const void* weight,
                                 const void* y, bool has_bias = false) {
    if (!plan) return std::nullopt;
    std::vector<std::int64_t> ids{conv_x, conv_weight, conv_y};
    std::vector<void*> pointers{const_cast<void*>(x), const_cast<void*>(weight), const_cast<void*>(y)};
    if (has_bias) {
      ids.push_back(conv_bias);
      pointers.push_back(const_cast<float*>(buffers_.params[1]));
    }
    return CudnnRun(plan, ids, pointers, context_.workspace());
  }

  Conv2dSpec spec_;
  ConvShape shape_;
  std::shared_ptr<CudnnPlan> fused_, forward_, weight_gradient_, input_gradient_;
  std::optional<CudnnRun> run_fused_, run_forward_, run_weight_gradient_, run_input_gradient_;
};

}  // namespace

std::unique_ptr<Op> make_conv2d(Context& context, const OpRequest& request, const Conv2dSpec& spec) {
  return std::make_unique<Conv2d>(context, request, spec);
}

}  // namespace muster::device::cuda
