// What the ops of the `cuda` backend share: descriptors, buffers, the context they enqueue on. Every op's host side is
// a .cpp file of the same stem as in `ref` and `cpu`; its kernels are in kernels.hpp.
#pragma once

#include "device/cuda/check.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/kernels.hpp"

#include <muster/device/op.hpp>

#include <memory>

namespace muster::device::cuda {

class CudaOp : public Op {
 public:
  CudaOp(Context& context, const OpRequest& request) : context_(context), request_(request) {
    std::vector<Shape> samples;
    for (const TensorDesc& input : request.inputs)
      samples.push_back(Shape(std::vector<std::int64_t>(input.shape.begin() + 1, input.shape.end())));
    rows_ = request.inputs[0].shape[0];
    output_ = {output_shape(request.spec, samples).batched(rows_), DType::f32, nullptr};
    for (const ParamShape& param : param_shapes(request.spec, samples))
      params_.push_back({param.shape, DType::f32, nullptr});
    traits_.backward_reads_input.assign(request.inputs.size(), false);
  }
  const TensorDesc& output() const override { return output_; }
  const std::vector<TensorDesc>& params() const override { return params_; }
  const OpTraits& traits() const override { return traits_; }
  std::string implementation() const override { return "own"; }
  void bind(const OpBuffers& buffers) override { buffers_ = buffers; }

 protected:
  cudaStream_t stream() const { return context_.stream(); }
  const float* x(std::size_t k = 0) const { return static_cast<const float*>(buffers_.inputs[k]); }
  float* y() const { return static_cast<float*>(buffers_.output); }
  const float* dy() const { return static_cast<const float*>(buffers_.output_grad); }
  /// Null when not wanted.
  float* dx(std::size_t k = 0) const {
    return k < buffers_.input_grads.size() ? static_cast<float*>(buffers_.input_grads[k]) : nullptr;
  }
  /// Whether the request may ask for the gradient of input k.
  bool may_want_grad(std::size_t k = 0) const {
    return request_.is_training && (request_.wants_input_grad.empty() || request_.wants_input_grad[k]);
  }
  std::int64_t last_extent() const { return request_.inputs[0].shape[request_.inputs[0].shape.rank() - 1]; }
  std::int64_t elements() const { return output_.shape.elements(); }
  /// Copies inside the device, unless source and destination are one.
  void pass(const float* from, float* to) const {
    if (from != to)
      CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements()) * sizeof(float),
                                 cudaMemcpyDeviceToDevice, stream()));
  }

  Context& context_;
  OpRequest request_;
  TensorDesc output_;
  std::vector<TensorDesc> params_;
  OpTraits traits_;
  OpBuffers buffers_;
  std::int64_t rows_ = 0;
};

std::unique_ptr<Op> make_dense(Context& context, const OpRequest& request, const DenseSpec& spec);
std::unique_ptr<Op> make_layer_norm(Context& context, const OpRequest& request, const LayerNormSpec& spec);
std::unique_ptr<Op> make_activation(Context& context, const OpRequest& request, const ActivationSpec& spec);
std::unique_ptr<Op> make_dropout(Context& context, const OpRequest& request, const DropoutSpec& spec);
std::unique_ptr<Op> make_add(Context& context, const OpRequest& request, const AddSpec& spec);
std::unique_ptr<Op> make_reshape(Context& context, const OpRequest& request, const ReshapeSpec& spec);
std::unique_ptr<Op> make_conv2d(Context& context, const OpRequest& request, const Conv2dSpec& spec);
std::unique_ptr<Op> make_batch_norm(Context& context, const OpRequest& request, const BatchNormSpec& spec);
std::unique_ptr<Op> make_concat(Context& context, const OpRequest& request, const ConcatSpec& spec);
std::unique_ptr<Op> make_pool2d(Context& context, const OpRequest& request, const Pool2dSpec& spec);
std::unique_ptr<Op> make_attention(Context& context, const OpRequest& request, const AttentionSpec& spec);
std::unique_ptr<Op> make_embedding(Context& context, const OpRequest& request, const EmbeddingSpec& spec);
std::unique_ptr<Op> make_positional_embedding(Context& context, const OpRequest& request,
                                              const PositionalEmbeddingSpec& spec);
std::unique_ptr<Op> make_rms_norm(Context& context, const OpRequest& request, const RmsNormSpec& spec);
std::unique_ptr<Op> make_rotary(Context& context, const OpRequest& request, const RotarySpec& spec);
std::unique_ptr<Op> make_swiglu(Context& context, const OpRequest& request, const SwigluSpec& spec);
std::unique_ptr<LossOp> make_loss(Context& context, const LossSpec& spec, const TensorDesc& predictions);

}  // namespace muster::device::cuda
