// The fully connected layer on oneDNN, with bias and activation fused where the library can.
#include "device/cpu/weighted.hpp"

namespace muster::device::cpu {
namespace {

/// An inner product. Images come as they are: the weight is then seen as [units, c, h, w], whose plain order is that of
/// [units, features], so flattening costs nothing.
class Dense : public WeightedOp {
 public:
  Dense(const OpRequest& request, const DenseSpec& spec) : WeightedOp(request, spec.has_bias, spec.activation) {
    memory::dims input = dims_of(request.inputs[0].shape);
    if (spec.is_per_position) input = {request.inputs[0].shape.elements() / input.back(), input.back()};
    else if (input.size() != 4) input = {rows_, samples_[0].elements()};
    memory::dims weight = input;
    weight[0] = spec.units;
    translated("inner product", [&] { make(spec, input, weight); });
    complete(weight, input);
  }

 private:
  void make(const DenseSpec& spec, const memory::dims& input, const memory::dims& weight) {
    const memory::desc bias = plain_desc({spec.units}), output = plain_desc({input[0], spec.units});
    const memory::desc* bias_or_none = spec.has_bias ? &bias : nullptr;
    primitive_attr attr = user_scratchpad();
    if (spec.activation == Activation::relu) {
      dnnl::post_ops tail;
      append_relu(tail);
      attr.set_post_ops(tail);
    }
    const memory::desc given = desc_of(request_.inputs[0], input);
    const memory::desc wanted = input.size() == 4 ? any_desc(input) : given;
    const auto kind = request_.is_training ? prop_kind::forward_training : prop_kind::forward_inference;
    const auto forward = inner_product_forward(engine(), attr, kind, wanted, any_desc(weight), bias_or_none, output);
    WeightedPrimitives& p = primitives_;
    p.forward = BoundPrimitive(dnnl::inner_product_forward(forward), forward);
    p.source = forward.src_desc();
    p.forward_weights = forward.weights_desc();
    p.output = output;
    p.implementation = forward.impl_info_str();
    if (!request_.is_training) return;

    const auto weights = inner_product_backward_weights(engine(), user_scratchpad(), p.source, any_desc(weight),
                                                        bias_or_none, output, forward);
    p.backward_weights = BoundPrimitive(dnnl::inner_product_backward_weights(weights), weights);
    p.weight_grad = weights.diff_weights_desc();
    p.weights_source = p.source;
    p.weights_output_grad = p.data_output_grad = output;
    if (!may_want_grad()) return;
    const auto data = [&] {
      try {
        return inner_product_backward_data(engine(), user_scratchpad(), given, any_desc(weight), output, forward);
      } catch (const dnnl::error&) {
        return inner_product_backward_data(engine(), user_scratchpad(), any_desc(input), any_desc(weight), output,
                                           forward);
      }
    }();
    p.backward_data = BoundPrimitive(dnnl::inner_product_backward_data(data), data);
    p.data_weights = data.weights_desc();
    p.data_grad = data.diff_src_desc();
  }
};

}  // namespace

std::unique_ptr<Op> make_dense(const OpRequest& request, const DenseSpec& spec) {
  return std::make_unique<Dense>(request, spec);
}

}  // namespace muster::device::cpu
