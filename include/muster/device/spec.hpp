// What an op computes, independent of any backend: one small struct per op, with the names and meaning of Keras and
// PyTorch. Shapes below are per micro-batch, n samples first; images are [n, c, h, w]. Losses: see LossSpec.
#pragma once

#include <muster/tensor/shape.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace muster::device {

enum class Activation : std::uint8_t { none, relu, leaky_relu, gelu, silu, tanh, sigmoid };

/// y[n, units] = activation(x W^T + b). x: [n, ...] taken as [n, features]. Params: weight [units, features],
/// bias [units] (if has_bias). Fused activation: none or relu (others are ActivationSpec nodes).
/// is_per_position: x: [n, ..., features] -> y: [n, ..., units], the same weights at every position.
struct DenseSpec {
  std::int64_t units = 0;
  bool has_bias = true;
  Activation activation = Activation::none;
  bool is_per_position = false;
};

/// 2-D cross-correlation. x: [n, c, h, w] -> y: [n, filters, oh, ow],
/// oh = (h + pad_top + pad_bottom - dilation*(kernel-1) - 1) / stride + 1.
/// Params: weight [filters, c/groups, kh, kw], bias [filters]. Fused activation: none or relu.
struct Conv2dSpec {
  std::int64_t filters = 0;
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::array<std::int64_t, 4> padding{0, 0, 0, 0};  ///< top, left, bottom, right
  std::int64_t groups = 1;
  bool has_bias = true;
  Activation activation = Activation::none;
};

/// Max or average pooling over windows; average excludes the padding (Keras), max ties go to the first element in
/// row-major order. Global pooling is a window of the whole image. x: [n, c, h, w].
struct Pool2dSpec {
  enum class Kind : std::uint8_t { max, average } kind = Kind::max;
  std::array<std::int64_t, 2> kernel{2, 2};
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 4> padding{0, 0, 0, 0};  ///< top, left, bottom, right
  bool is_global = false;                           ///< y: [n, c]
};

/// y = activation(gamma (x - mean) / sqrt(var + epsilon) + beta [+ residual]), statistics per channel (axis 1) over the
/// batch and the image. Ioffe and Szegedy 2015. x: [n, c] or [n, c, h, w]; optional second input: the residual, of x's
/// shape. Params: gamma [c], beta [c]; state: running_mean [c], running_var [c] (unbiased variance, as PyTorch):
/// running = (1 - momentum) running + momentum batch. Fused activation: none or relu.
/// group == 0: global scope, statistics over the global batch (see Op, "phases"). group == k: over every k consecutive
/// samples of the global batch, no communication before the update of the running values.
struct BatchNormSpec {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
  std::int64_t group = 0;
  bool has_residual = false;
  Activation activation = Activation::none;
};

/// Normalises each sample over all its axes. Ba et al. 2016. Params: gamma, beta of the sample's shape.
/// is_per_position: over the last axis alone; gamma, beta: [last extent].
struct LayerNormSpec {
  float epsilon = 1e-5f;
  bool is_per_position = false;
};

/// y = gamma x / sqrt(mean(x^2) + epsilon) over the last axis. Zhang and Sennrich 2019. Params: gamma [last extent].
struct RmsNormSpec {
  float epsilon = 1e-5f;
};

/// Elementwise; slope is leaky_relu's negative slope; gelu is the exact erf form (is_gelu_tanh: the tanh
/// approximation).
struct ActivationSpec {
  Activation kind = Activation::relu;
  float slope = 0.01f;
  bool is_gelu_tanh = false;
};

/// Inverted dropout. The mask of element e of the sample at row r of the global batch is
/// RandomStream(seed, dropout, (stream << 40) + step, r).uniform(e) >= rate, e the plain (row-major) index inside the
/// sample, whatever the layout. Outside training: identity.
struct DropoutSpec {
  float rate = 0.5f;
  std::uint32_t stream = 0;  ///< which dropout of the network this is
};

/// y = x0 + x1 + ..., then the activation (none or relu).
struct AddSpec {
  Activation activation = Activation::none;
};

/// Joins the inputs along axis 1 (channels).
struct ConcatSpec {};

/// Token ids to vectors: x: [n, t], whole numbers in [0, vocabulary) held as float32 (exact below 2^24) -> y: [n, t,
/// width]. Params: weight [vocabulary, width]. The input has no gradient (zeros where asked for). An id outside the
/// vocabulary is Error(data).
struct EmbeddingSpec {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
};

/// y = x + weight[position]. x: [n, t, width]; t + RunContext::position <= length. Params: weight [length, width].
struct PositionalEmbeddingSpec {
  std::int64_t length = 0;
};

/// Rotary positions (Su et al., "RoFormer", 2021), in each of the first `heads` slices of head_dim features: elements i
/// and i + head_dim/2 are turned by the angle position * base^(-2i/head_dim). x: [n, t, f], f >= heads * head_dim; the
/// other features pass. Positions start at RunContext::position.
struct RotarySpec {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  float base = 10000.0f;
};

/// Scaled dot-product attention (Vaswani et al. 2017). x: [n, t, (heads + 2 kv_heads) head_dim]: queries, keys and
/// values side by side, head by head; query head h reads key/value head h / (heads / kv_heads). y: [n, t, heads *
/// head_dim] = dropout(softmax(q k^T / sqrt(head_dim))) v; is_causal: position i sees positions 0..i.
/// Dropout (training only) is inverted; the mask of (head h, query i, key j) of the sample at row r of the global batch
/// is that of DropoutSpec for element (h t + i) s + j, s = t rounded up to a multiple of 4.
/// cache > 0: inference of a sequence piece by piece. The op keeps keys and values of up to `cache` positions between
/// calls; x holds those from RunContext::position on, and position 0 begins a new sequence. Needs is_causal.
struct AttentionSpec {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  bool is_causal = true;
  float dropout = 0.0f;
  std::uint32_t stream = 0;
  std::int64_t cache = 0;
};

/// y = silu(a) b, where a and b are the halves of the last axis: [n, ..., 2 k] -> [n, ..., k]. Shazeer 2020.
struct SwigluSpec {};

/// Same elements in plain order under another sample shape.
struct ReshapeSpec {
  Shape sample_shape;
};

using OpSpec = std::variant<DenseSpec, Conv2dSpec, Pool2dSpec, BatchNormSpec, LayerNormSpec, ActivationSpec,
                            DropoutSpec, AddSpec, ConcatSpec, ReshapeSpec, EmbeddingSpec, PositionalEmbeddingSpec,
                            RotarySpec, AttentionSpec, RmsNormSpec, SwigluSpec>;

/// "conv2d", "dense", ... for messages.
std::string name_of(const OpSpec& spec);

/// Shape of one sample of the output, given those of the inputs (without n). Throws Error(usage) with a message that
/// names both shapes where they do not fit; the caller adds which layer it was.
Shape output_shape(const OpSpec& spec, const std::vector<Shape>& inputs);

/// Name and shape of each trainable parameter and of each state tensor of the op, in the order of OpBuffers.
struct ParamShape {
  std::string name;  ///< "weight", "bias", "gamma", "beta"
  Shape shape;
};
std::vector<ParamShape> param_shapes(const OpSpec& spec, const std::vector<Shape>& inputs);
std::vector<ParamShape> state_shapes(const OpSpec& spec, const std::vector<Shape>& inputs);

/// Multiply-add FLOPs (2 per MAC) of one sample's forward pass; 0 for memory-bound ops.
double forward_flops(const OpSpec& spec, const std::vector<Shape>& inputs);

/// Losses. Values are sums over samples (never means); gradients are divided by the global count,
/// RunContext::global_rows.
///  softmax_cross_entropy: logits [n, ..., classes], targets int32 [n, ...]: one label per position, a sample's loss is
///  the mean over its positions; label_smoothing s: target = (1-s) onehot + s/classes. binary_cross_entropy: logits [n,
///  k], targets float [n, k] in [0, 1]; sum over k of the sigmoid cross-entropy / k. mean_squared_error: predictions
///  [n, k...], targets float of that shape; sum over k of (y - t)^2 / k.
struct LossSpec {
  enum class Kind : std::uint8_t { softmax_cross_entropy, binary_cross_entropy, mean_squared_error };
  Kind kind = Kind::softmax_cross_entropy;
  float label_smoothing = 0.0f;
};

}  // namespace muster::device
