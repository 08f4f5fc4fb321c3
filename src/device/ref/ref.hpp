// What the ops of the `ref` backend share: plain layouts, plain loops, sums in double. This backend is the truth that
// the others are tested against; it is never optimised.
#pragma once

#include <muster/base/check.hpp>
#include <muster/base/ids.hpp>
#include <muster/device/op.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace muster::device::ref {

class RefOp : public Op {
 public:
  explicit RefOp(const OpRequest& request) : request_(request) {
    std::vector<Shape> samples;
    for (const TensorDesc& input : request.inputs) samples.push_back(sample_of(input.shape));
    rows_ = request.inputs[0].shape[0];
    output_ = {output_shape(request.spec, samples).batched(rows_), DType::f32, nullptr};
    for (const ParamShape& param : param_shapes(request.spec, samples))
      params_.push_back({param.shape, DType::f32, nullptr});
    traits_.backward_reads_input.assign(request.inputs.size(), false);
  }
  const TensorDesc& output() const override { return output_; }
  const std::vector<TensorDesc>& params() const override { return params_; }
  const OpTraits& traits() const override { return traits_; }
  std::string implementation() const override { return "ref"; }
  void bind(const OpBuffers& buffers) override { buffers_ = buffers; }

 protected:
  static Shape sample_of(const Shape& batched) {
    return Shape(std::vector<std::int64_t>(batched.begin() + 1, batched.end()));
  }
  const float* x(std::size_t k = 0) const { return static_cast<const float*>(buffers_.inputs[k]); }
  float* y() const { return static_cast<float*>(buffers_.output); }
  const float* dy() const { return static_cast<const float*>(buffers_.output_grad); }
  /// Null when not wanted.
  float* dx(std::size_t k = 0) const { return static_cast<float*>(buffers_.input_grads[k]); }
  bool wants_grad(std::size_t k = 0) const {
    return k < buffers_.input_grads.size() && buffers_.input_grads[k] != nullptr;
  }
  /// Positions of an op that works on the last axis alone: samples times all other extents.
  std::int64_t positions() const { return input_elements() / last_extent(); }
  std::int64_t last_extent() const { return request_.inputs[0].shape[request_.inputs[0].shape.rank() - 1]; }
  std::int64_t input_elements(std::size_t k = 0) const { return request_.inputs[k].shape.elements(); }
  std::int64_t output_elements() const { return output_.shape.elements(); }

  /// Gradient behind a fused activation (none or relu): relu lets through where the output is positive.
  double behind_activation(Activation activation, std::int64_t i) const {
    return activation == Activation::relu && !(y()[i] > 0) ? 0.0 : static_cast<double>(dy()[i]);
  }
  static double activate(Activation activation, double value) {
    return activation == Activation::relu ? std::max(value, 0.0) : value;
  }

  OpRequest request_;
  TensorDesc output_;
  std::vector<TensorDesc> params_;
  OpTraits traits_;
  OpBuffers buffers_;
  std::int64_t rows_ = 0;
};

std::unique_ptr<Op> make_dense(const OpRequest& request, const DenseSpec& spec);
std::unique_ptr<Op> make_conv2d(const OpRequest& request, const Conv2dSpec& spec);
std::unique_ptr<Op> make_pool2d(const OpRequest& request, const Pool2dSpec& spec);
std::unique_ptr<Op> make_batch_norm(const OpRequest& request, const BatchNormSpec& spec);
std::unique_ptr<Op> make_layer_norm(const OpRequest& request, const LayerNormSpec& spec);
std::unique_ptr<Op> make_activation(const OpRequest& request, const ActivationSpec& spec);
std::unique_ptr<Op> make_dropout(const OpRequest& request, const DropoutSpec& spec);
std::unique_ptr<Op> make_add(const OpRequest& request, const AddSpec& spec);
std::unique_ptr<Op> make_concat(const OpRequest& request, const ConcatSpec& spec);
std::unique_ptr<Op> make_reshape(const OpRequest& request, const ReshapeSpec& spec);
std::unique_ptr<Op> make_embedding(const OpRequest& request, const EmbeddingSpec& spec);
std::unique_ptr<Op> make_positional_embedding(const OpRequest& request, const PositionalEmbeddingSpec& spec);
std::unique_ptr<Op> make_rotary(const OpRequest& request, const RotarySpec& spec);
std::unique_ptr<Op> make_attention(const OpRequest& request, const AttentionSpec& spec);
std::unique_ptr<Op> make_rms_norm(const OpRequest& request, const RmsNormSpec& spec);
std::unique_ptr<Op> make_swiglu(const OpRequest& request, const SwigluSpec& spec);
std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions);

}  // namespace muster::device::ref
