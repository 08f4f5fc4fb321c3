// 2-D convolution on oneDNN, with bias and activation fused where the library can.
#include "device/cpu/weighted.hpp"

namespace muster::device::cpu {
namespace {

class Conv2d : public WeightedOp {
 public:
  Conv2d(const OpRequest& request, const Conv2dSpec& spec) : WeightedOp(request, spec.has_bias, spec.activation) {
    const memory::dims input = dims_of(request.inputs[0].shape), output = dims_of(output_shape_);
    memory::dims weight = dims_of(params_[0].shape);
    if (spec.groups > 1) weight = {spec.groups, spec.filters / spec.groups, weight[1], weight[2], weight[3]};
    const Window window{{spec.kernel[0], spec.kernel[1]},
                        {spec.stride[0], spec.stride[1]},
                        {spec.dilation[0] - 1, spec.dilation[1] - 1},
                        {spec.padding[0], spec.padding[1]},
                        {spec.padding[2], spec.padding[3]}};
    translated("convolution", [&] { make(spec, input, weight, output, window); });
    complete(weight, input);
  }

 private:
  void make(const Conv2dSpec& spec, const memory::dims& input, const memory::dims& weight, const memory::dims& output,
            const Window& window) {
    const memory::desc bias = plain_desc({spec.filters});
    const memory::desc* bias_or_none = spec.has_bias ? &bias : nullptr;
    primitive_attr attr = user_scratchpad();
    if (spec.activation == Activation::relu) {
      dnnl::post_ops tail;
      append_relu(tail);
      attr.set_post_ops(tail);
    }
    const auto kind = request_.is_training ? prop_kind::forward_training : prop_kind::forward_inference;
    const auto forward = convolution_forward(engine(), attr, kind, any_desc(input), any_desc(weight), bias_or_none,
                                             any_desc(output), window);
    WeightedPrimitives& p = primitives_;
    p.forward = BoundPrimitive(dnnl::convolution_forward(forward), forward);
    p.source = forward.src_desc();
    p.forward_weights = forward.weights_desc();
    p.output = forward.dst_desc();
    p.implementation = forward.impl_info_str();
    output_ = tensor_of(output_shape_, p.output, output);
    if (!request_.is_training) return;

    const auto weights = convolution_backward_weights(engine(), user_scratchpad(), p.source, any_desc(weight),
                                                      bias_or_none, p.output, window, forward);
    p.backward_weights = BoundPrimitive(dnnl::convolution_backward_weights(weights), weights);
    p.weight_grad = weights.diff_weights_desc();
    if (!may_want_grad()) return;
    const auto data = [&] {
      try {  // best: written in the layout of the input itself
        return convolution_backward_data(engine(), user_scratchpad(), desc_of(request_.inputs[0]), any_desc(weight),
                                         p.output, window, forward);
      } catch (const dnnl::error&) {
        return convolution_backward_data(engine(), user_scratchpad(), any_desc(input), any_desc(weight), p.output,
                                         window, forward);
      }
    }();
    p.backward_data = BoundPrimitive(dnnl::convolution_backward_data(data), data);
    p.data_weights = data.weights_desc();
    p.data_grad = data.diff_src_desc();
  }
};

}  // namespace

std::unique_ptr<Op> make_conv2d(const OpRequest& request, const Conv2dSpec& spec) {
  return std::make_unique<Conv2d>(request, spec);
}

}  // namespace muster::device::cpu
