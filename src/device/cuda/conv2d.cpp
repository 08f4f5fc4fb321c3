// Convolution by kernels of our own: correct for every spec, with sums in a fixed order, but far from what the tensor
// units of a card can do.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Conv2d : public CudaOp {
 public:
  Conv2d(Context& context, const OpRequest& request, const Conv2dSpec& spec) : CudaOp(context, request), spec_(spec) {
    const Shape &in = request.inputs[0].shape, &out = output_.shape;
    shape_ = {in[0],
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
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = has_relu();
    traits_.may_overwrite_output_grad = has_relu();
  }
  void forward(int, const RunContext&) override {
    const float* bias = spec_.has_bias ? buffers_.params[1] : nullptr;
    CUDA_CHECK(convolve(x(), buffers_.params[0], bias, y(), has_relu(), shape_, stream()));
  }
  void backward(int, const RunContext&) override {
    auto* grad = static_cast<float*>(const_cast<void*>(buffers_.output_grad));
    if (has_relu()) CUDA_CHECK(mask_by_relu(y(), grad, grad, elements(), stream()));
    float* bias_grad = spec_.has_bias ? buffers_.param_grads[1] : nullptr;
    CUDA_CHECK(convolve_param_gradient(x(), grad, buffers_.param_grads[0], bias_grad, shape_, stream()));
    if (dx()) CUDA_CHECK(convolve_input_gradient(grad, buffers_.params[0], dx(), shape_, stream()));
  }

 private:
  bool has_relu() const { return spec_.activation == Activation::relu; }
  Conv2dSpec spec_;
  ConvShape shape_{};
};

}  // namespace

std::unique_ptr<Op> make_conv2d(Context& context, const OpRequest& request, const Conv2dSpec& spec) {
  return std::make_unique<Conv2d>(context, request, spec);
}

}  // namespace muster::device::cuda
