// 2-D convolution by oneDNN's direct kernels: quick to make and never far from the best. Winograd's, slow to make and
// only sometimes faster, are tried where `device.tune` asks for it.
#include "device/cpu/tuning.hpp"
#include "device/cpu/weighted.hpp"

namespace muster::device::cpu {
namespace {

using Formats = std::vector<std::pair<memory::desc, memory::desc>>;

/// The primitive for the first pair of formats that the library has a real kernel for; where it knows nothing better
/// than its plain loops (hundreds of times slower: AVX2 and one input channel), the last that it can do at all.
template <class Make>
auto first_kernel(Make make_desc, const Formats& formats) {
  for (std::size_t i = 0; i + 1 < formats.size(); ++i) {
    try {
      const auto desc = make_desc(formats[i]);
      if (!std::string(desc.impl_info_str()).starts_with("ref")) return desc;
    } catch (const dnnl::error&) {
    }
  }
  return make_desc(formats.back());
}

class Conv2d : public WeightedOp {
 public:
  Conv2d(const OpRequest& request, const Conv2dSpec& spec, bool is_tuned)
      : WeightedOp(request, spec.has_bias, spec.activation), is_tuned_(is_tuned) {
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
    const auto make_forward = [&](algorithm kernel) {
      return convolution_forward(engine(), attr, kernel, kind, any_desc(input), any_desc(weight), bias_or_none,
                                 any_desc(output), window);
    };
    const auto direct = make_forward(algorithm::convolution_direct);
    const auto forward = tuned<dnnl::convolution_forward>(direct, make_forward,
                                                          [&](const auto& d) {
                                                            return Arguments{{DNNL_ARG_SRC, d.src_desc()},
                                                                             {DNNL_ARG_DST, d.dst_desc()},
                                                                             {DNNL_ARG_WEIGHTS, d.weights_desc()},
                                                                             {DNNL_ARG_BIAS, bias}};
                                                          },
                                                          {DNNL_ARG_SRC, DNNL_ARG_DST});
    WeightedPrimitives& p = primitives_;
    p.forward = BoundPrimitive(dnnl::convolution_forward(forward), forward);
    p.source = forward.src_desc();
    p.forward_weights = forward.weights_desc();
    p.output = forward.dst_desc();
    p.implementation = forward.impl_info_str();
    output_ = tensor_of(output_shape_, p.output, output);
    if (request_.is_training) make_backward(input, weight, output, bias, bias_or_none, window, direct);
  }

  void make_backward(const memory::dims& input, const memory::dims& weight, const memory::dims& output,
                     const memory::desc& bias, const memory::desc* bias_or_none, const Window& window,
                     const dnnl::convolution_forward::primitive_desc& forward) {
    WeightedPrimitives& p = primitives_;
    const auto make_weights = [&](algorithm kernel, const memory::desc& source, const memory::desc& output_grad) {
      return convolution_backward_weights(engine(), user_scratchpad(), kernel, source, any_desc(weight), bias_or_none,
                                          output_grad, window, forward);
    };
    const auto direct_weights = first_kernel(
        [&](const auto& formats) { return make_weights(algorithm::convolution_direct, formats.first, formats.second); },
        {{p.source, p.output}, {any_desc(input), any_desc(output)}});
    p.weights_source = direct_weights.src_desc();
    p.weights_output_grad = direct_weights.diff_dst_desc();
    const auto weights = tuned<dnnl::convolution_backward_weights>(
        direct_weights, [&](algorithm kernel) { return make_weights(kernel, p.weights_source, p.weights_output_grad); },
        [&](const auto& d) {
          return Arguments{{DNNL_ARG_SRC, d.src_desc()},
                           {DNNL_ARG_DIFF_DST, d.diff_dst_desc()},
                           {DNNL_ARG_DIFF_WEIGHTS, d.diff_weights_desc()},
                           {DNNL_ARG_DIFF_BIAS, bias}};
        },
        {DNNL_ARG_DIFF_WEIGHTS});
    p.backward_weights = BoundPrimitive(dnnl::convolution_backward_weights(weights), weights);
    p.weight_grad = weights.diff_weights_desc();
    p.implementation += fmt::format(", weights {}", weights.impl_info_str());
    if (!may_want_grad()) return;

    const auto make_data = [&](algorithm kernel, const memory::desc& data_grad, const memory::desc& output_grad) {
      return convolution_backward_data(engine(), user_scratchpad(), kernel, data_grad, any_desc(weight), output_grad,
                                       window, forward);
    };
    // Best: written in the layout of the input itself.
    const auto direct = first_kernel(
        [&](const auto& formats) { return make_data(algorithm::convolution_direct, formats.first, formats.second); },
        {{desc_of(request_.inputs[0]), p.output}, {any_desc(input), p.output}, {any_desc(input), any_desc(output)}});
    p.data_output_grad = direct.diff_dst_desc();
    const auto data = tuned<dnnl::convolution_backward_data>(
        direct, [&](algorithm kernel) { return make_data(kernel, direct.diff_src_desc(), p.data_output_grad); },
        [&](const auto& d) {
          return Arguments{{DNNL_ARG_DIFF_SRC, d.diff_src_desc()},
                           {DNNL_ARG_DIFF_DST, d.diff_dst_desc()},
                           {DNNL_ARG_WEIGHTS, d.weights_desc()}};
        },
        {DNNL_ARG_DIFF_SRC});
    p.backward_data = BoundPrimitive(dnnl::convolution_backward_data(data), data);
    p.implementation += fmt::format(", data {}", data.impl_info_str());
    p.data_weights = data.weights_desc();
    p.data_grad = data.diff_src_desc();
  }

  /// The direct primitive, or Winograd's where tuning is on and it is the faster one.
  template <class Primitive, class Desc, class Make, class ArgumentsOf>
  Desc tuned(const Desc& direct, Make make_desc, ArgumentsOf arguments_of, const std::vector<int>& fixed) const {
    if (!is_tuned_) return direct;
    return faster<Primitive>(
        direct, [&] { return make_desc(algorithm::convolution_winograd); }, arguments_of, fixed);
  }

  bool is_tuned_;
};

}  // namespace

std::unique_ptr<Op> make_conv2d(const OpRequest& request, const Conv2dSpec& spec, bool is_tuned) {
  return std::make_unique<Conv2d>(request, spec, is_tuned);
}

}  // namespace muster::device::cpu
