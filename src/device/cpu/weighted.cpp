#include "device/cpu/weighted.hpp"

namespace muster::device::cpu {

WeightedOp::WeightedOp(const OpRequest& request, bool has_bias, Activation activation)
    : CpuOp(request), has_bias_(has_bias), activation_(activation) {
  MUSTER_CHECK(activation == Activation::none || activation == Activation::relu, "only relu is fused");
}

void WeightedOp::complete(const memory::dims& weight_dims, const memory::dims& input_dims) {
  const WeightedPrimitives& p = primitives_;
  if (!request_.fixed_params.empty()) params_[0] = request_.fixed_params[0];
  else params_[0] = tensor_of(params_[0].shape, request_.is_training ? p.weight_grad : p.forward_weights, weight_dims);
  param_desc_ = desc_of(params_[0], weight_dims);
  if (has_bias_) bias_desc_ = plain_desc({params_[1].shape[0]});

  source_ = Reorder(desc_of(request_.inputs[0], input_dims), p.source);
  forward_weights_ = Reorder(param_desc_, p.forward_weights);
  Pieces in_saved, in_scratch;
  source_at_ = (request_.is_training ? in_saved : in_scratch).add(source_.bytes());
  forward_weights_at_ = in_scratch.add(forward_weights_.bytes());
  std::size_t scratchpad =
      std::max({p.forward.scratch_bytes(), source_.scratch_bytes(), forward_weights_.scratch_bytes()});
  if (request_.is_training) {
    weight_grad_ = Reorder(p.weight_grad, param_desc_);
    weight_grad_at_ = in_scratch.add(weight_grad_.bytes() > 0 ? p.weight_grad.get_size() : 0);
    weights_source_ = Reorder(p.source, p.weights_source);
    weights_output_grad_ = Reorder(p.output, p.weights_output_grad);
    weights_source_at_ = in_scratch.add(weights_source_.bytes());
    weights_output_grad_at_ = in_scratch.add(weights_output_grad_.bytes());
    scratchpad = std::max({scratchpad, p.backward_weights.scratch_bytes(), weight_grad_.scratch_bytes(),
                           weights_source_.scratch_bytes(), weights_output_grad_.scratch_bytes()});
    if (p.backward_data) {
      data_output_grad_ = Reorder(p.output, p.data_output_grad);
      data_output_grad_at_ = in_scratch.add(data_output_grad_.bytes());
      data_weights_ = Reorder(param_desc_, p.data_weights);
      data_grad_ = Reorder(p.data_grad, desc_of(request_.inputs[0], input_dims));
      data_weights_at_ = in_scratch.add(data_weights_.bytes());
      data_grad_at_ = in_scratch.add(data_grad_.is_needed() ? p.data_grad.get_size() : 0);
      scratchpad = std::max({scratchpad, p.backward_data.scratch_bytes(), data_weights_.scratch_bytes(),
                             data_grad_.scratch_bytes(), data_output_grad_.scratch_bytes()});
    }
  }
  scratchpad_at_ = in_scratch.add(scratchpad);
  traits_.saved_bytes = in_saved.bytes();
  traits_.scratch_bytes = in_scratch.bytes();
  traits_.backward_reads_input[0] = !source_.is_needed();
  traits_.backward_reads_output = traits_.may_overwrite_output_grad = activation_ != Activation::none;
}

void WeightedOp::bind(const OpBuffers& buffers) {
  CpuOp::bind(buffers);
  WeightedPrimitives& p = primitives_;
  void* scratchpad = scratch(scratchpad_at_);
  const void* source = buffers.inputs[0];
  if (source_.is_needed()) {
    void* to = request_.is_training ? saved(source_at_) : scratch(source_at_);
    source_.bind(buffers.inputs[0], to, scratchpad);
    source = to;
  }
  const void* weights = through(forward_weights_, buffers.params[0], forward_weights_at_, scratchpad);
  p.forward.bind(DNNL_ARG_SRC, p.source, source);
  p.forward.bind(DNNL_ARG_WEIGHTS, p.forward_weights, weights);
  if (has_bias_) p.forward.bind(DNNL_ARG_BIAS, bias_desc_, buffers.params[1]);
  p.forward.bind(DNNL_ARG_DST, p.output, buffers.output);
  p.forward.bind_scratch(scratchpad);
  if (!request_.is_training || buffers.param_grads.empty()) return;

  const void* grad = buffers.output_grad;
  void* weight_grad = weight_grad_.is_needed() ? static_cast<void*>(scratch(weight_grad_at_)) : buffers.param_grads[0];
  weight_grad_.bind(weight_grad, buffers.param_grads[0], scratchpad);
  p.backward_weights.bind(DNNL_ARG_SRC, p.weights_source,
                          through(weights_source_, source, weights_source_at_, scratchpad));
  p.backward_weights.bind(DNNL_ARG_DIFF_DST, p.weights_output_grad,
                          through(weights_output_grad_, grad, weights_output_grad_at_, scratchpad));
  p.backward_weights.bind(DNNL_ARG_DIFF_WEIGHTS, p.weight_grad, weight_grad);
  if (has_bias_) p.backward_weights.bind(DNNL_ARG_DIFF_BIAS, bias_desc_, buffers.param_grads[1]);
  p.backward_weights.bind_scratch(scratchpad);
  if (!p.backward_data || !wants_grad()) return;

  const void* data_weights = through(data_weights_, buffers.params[0], data_weights_at_, scratchpad);
  void* data_grad = data_grad_.is_needed() ? static_cast<void*>(scratch(data_grad_at_)) : buffers.input_grads[0];
  data_grad_.bind(data_grad, buffers.input_grads[0], scratchpad);
  p.backward_data.bind(DNNL_ARG_DIFF_DST, p.data_output_grad,
                       through(data_output_grad_, grad, data_output_grad_at_, scratchpad));
  p.backward_data.bind(DNNL_ARG_WEIGHTS, p.data_weights, data_weights);
  p.backward_data.bind(DNNL_ARG_DIFF_SRC, p.data_grad, data_grad);
  p.backward_data.bind_scratch(scratchpad);
}

/// Where the data lie once the change of format has run: in scratch, or where they were if none is needed.
const void* WeightedOp::through(Reorder& reorder, const void* from, std::size_t scratch_at, void* scratchpad) {
  if (!reorder.is_needed()) return from;
  reorder.bind(from, scratch(scratch_at), scratchpad);
  return scratch(scratch_at);
}

void WeightedOp::forward(int, const RunContext&) {
  source_.run();
  forward_weights_.run();
  primitives_.forward.run();
}

void WeightedOp::backward(int, const RunContext&) {
  if (activation_ == Activation::relu) mask_by_relu(threads_, y(), own_dy(), padded_output());
  weights_source_.run();
  weights_output_grad_.run();
  primitives_.backward_weights.run();
  weight_grad_.run();
  if (!primitives_.backward_data || !wants_grad()) return;
  data_weights_.run();
  data_output_grad_.run();
  primitives_.backward_data.run();
  data_grad_.run();
}

}  // namespace muster::device::cpu
