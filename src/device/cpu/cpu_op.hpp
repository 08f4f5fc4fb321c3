// What the ops of the `cpu` backend share: descriptors, buffers, and the loop over elements in threads.
#pragma once

#include "device/cpu/dnnl_tensor.hpp"

#include <muster/base/check.hpp>
#include <muster/base/ids.hpp>
#include <muster/device/op.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace muster::device::cpu {

/// Below this many elements a parallel region costs more than it saves.
inline constexpr std::int64_t parallel_threshold = 16384;

/// Calls body(begin, end) for one contiguous part of [0, count) per thread; the cut depends on count and threads only.
template <class Body>
void parallel_ranges(int threads, std::int64_t count, Body body) {
  if (threads == 1 || count < parallel_threshold) {
    body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t part = (count / threads + 64) / 64 * 64;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) {
    const std::int64_t begin = std::min(count, t * part),
                       end = t + 1 == threads ? count : std::min(count, (t + 1) * part);
    if (begin < end) body(begin, end);
  }
}

/// Calls body(i) for i in [0, count), whole items per thread; work: elements in all, to decide whether threads pay.
template <class Body>
void parallel_items(int threads, std::int64_t count, std::int64_t work, Body body) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && work >= parallel_threshold)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

class CpuOp : public Op {
 public:
  explicit CpuOp(const OpRequest& request) : request_(request), threads_(request.threads) {
    for (const TensorDesc& input : request.inputs)
      samples_.push_back(Shape(std::vector<std::int64_t>(input.shape.begin() + 1, input.shape.end())));
    rows_ = request.inputs[0].shape[0];
    output_shape_ = output_shape(request.spec, samples_).batched(rows_);
    output_ = {output_shape_, DType::f32, nullptr};
    for (const ParamShape& param : param_shapes(request.spec, samples_))
      params_.push_back({param.shape, DType::f32, nullptr});
    traits_.backward_reads_input.assign(request.inputs.size(), false);
  }
  const TensorDesc& output() const override { return output_; }
  const std::vector<TensorDesc>& params() const override { return params_; }
  const OpTraits& traits() const override { return traits_; }
  std::string implementation() const override { return "own"; }
  void bind(const OpBuffers& buffers) override { buffers_ = buffers; }

 protected:
  const float* x(std::size_t k = 0) const { return static_cast<const float*>(buffers_.inputs[k]); }
  float* y() const { return static_cast<float*>(buffers_.output); }
  const float* dy() const { return static_cast<const float*>(buffers_.output_grad); }
  /// For ops with OpTraits::may_overwrite_output_grad.
  float* own_dy() const { return const_cast<float*>(dy()); }
  float* dx(std::size_t k = 0) const { return static_cast<float*>(buffers_.input_grads[k]); }
  bool wants_grad(std::size_t k = 0) const {
    return k < buffers_.input_grads.size() && buffers_.input_grads[k] != nullptr;
  }
  /// Whether the request may ask for the gradient of input k.
  bool may_want_grad(std::size_t k = 0) const {
    return request_.is_training && (request_.wants_input_grad.empty() || request_.wants_input_grad[k]);
  }
  std::int64_t padded_output() const { return output_.padded_elements(); }
  std::byte* scratch(std::size_t offset = 0) const { return static_cast<std::byte*>(buffers_.scratch) + offset; }
  std::byte* saved(std::size_t offset = 0) const { return static_cast<std::byte*>(buffers_.saved) + offset; }

  OpRequest request_;
  int threads_;
  std::vector<Shape> samples_;
  std::int64_t rows_ = 0;
  Shape output_shape_;
  TensorDesc output_;
  std::vector<TensorDesc> params_;
  OpTraits traits_;
  OpBuffers buffers_;
};

/// Takes the relu out of a gradient in place: zero where the output is not positive.
inline void mask_by_relu(int threads, const float* output, float* grad, std::int64_t count) {
  parallel_ranges(threads, count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) grad[i] = output[i] > 0.0f ? grad[i] : 0.0f;
  });
}

std::unique_ptr<Op> make_dense(const OpRequest& request, const DenseSpec& spec);
/// is_tuned: kernels may be chosen by timing.
std::unique_ptr<Op> make_conv2d(const OpRequest& request, const Conv2dSpec& spec, bool is_tuned);
std::unique_ptr<Op> make_pool2d(const OpRequest& request, const Pool2dSpec& spec);
/// Max pooling by own loops; null where the layout or the window asks for the library's.
std::unique_ptr<Op> make_max_pool2d(const OpRequest& request, const Pool2dSpec& spec);
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
std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int threads);

}  // namespace muster::device::cpu
