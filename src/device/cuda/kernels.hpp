// The kernels of our own, one host function each: enqueues on `stream` and returns what the launch said. Pointers are
// device memory, plain row-major float32 unless said otherwise; sums are taken in a fixed order, so the same input
// gives the same bits. Every function may be called with counts of zero.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace muster::device::cuda {

// ---- elementwise.cu
enum class Curve : int { relu, leaky_relu, gelu, gelu_tanh, silu, tanh, sigmoid };
/// to[i] += from[i]
cudaError_t add_into(float* to, const float* from, std::int64_t count, cudaStream_t stream);
/// y = a + b, then relu where asked for. y may be a.
cudaError_t add(const float* a, const float* b, float* y, bool has_relu, std::int64_t count, cudaStream_t stream);
/// dx = dy where y > 0, else 0. dx may be dy.
cudaError_t mask_by_relu(const float* y, const float* dy, float* dx, std::int64_t count, cudaStream_t stream);
cudaError_t apply_curve(Curve curve, float slope, const float* x, float* y, std::int64_t count, cudaStream_t stream);
/// dx = dy * curve'(x). dx may be dy.
cudaError_t apply_curve_gradient(Curve curve, float slope, const float* x, const float* dy, float* dx,
                                 std::int64_t count, cudaStream_t stream);

// ---- rows.cu: matrices [rows, columns]
/// y[r, c] += bias[c], then relu where asked for.
cudaError_t add_bias(float* y, const float* bias, bool has_relu, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream);
/// sums[c] = sum over r of x[r, c]
cudaError_t column_sums(const float* x, float* sums, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

/// to[r, offset_to + c] = from[r, offset_from + c], c < width; strides are the rows' lengths.
struct Columns {
  std::int64_t offset, stride;
};
cudaError_t copy_columns(const float* from, Columns of_from, float* to, Columns of_to, std::int64_t rows,
                         std::int64_t width, cudaStream_t stream);

// ---- sequence.cu: token ids as float32 in [0, vocabulary)
/// y[i] = weight[ids[i]]; an id outside is written to *bad_id, and its vector is NaN.
cudaError_t embed(const float* ids, const float* weight, float* y, float* bad_id, std::int64_t vocabulary,
                  std::int64_t tokens, std::int64_t width, cudaStream_t stream);
/// weight_grad [vocabulary, width], overwritten; tokens are added in order.
cudaError_t embed_gradient(const float* ids, const float* dy, float* weight_grad, std::int64_t vocabulary,
                           std::int64_t tokens, std::int64_t width, cudaStream_t stream);
/// y[n, e] = x[n, e] + weight[e]. y may be x.
cudaError_t add_to_rows(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t elements,
                        cudaStream_t stream);
/// RotarySpec; sign -1 turns back. to may be from.
struct RotaryShape {
  std::int64_t positions, length, width, heads, head_dim, first_position;
  float base;
};
cudaError_t rotate(const float* from, float* to, RotaryShape shape, float sign, cudaStream_t stream);
/// x [rows, 2 k] -> y [rows, k]; count = rows * k.
cudaError_t swiglu(const float* x, float* y, std::int64_t k, std::int64_t count, cudaStream_t stream);
cudaError_t swiglu_gradient(const float* x, const float* dy, float* dx, std::int64_t k, std::int64_t count,
                            cudaStream_t stream);

// ---- rms_norm.cu: as layer_norm; inverses[r] = 1 / sqrt(mean(x^2) + epsilon)
cudaError_t rms_norm(const float* x, const float* gamma, float* y, float* inverses, float epsilon, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream);
cudaError_t rms_norm_gradient(const float* x, const float* gamma, const float* inverses, const float* dy, float* dx,
                              float* gamma_grad, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

// ---- conv2d.cu: x [n, c, h, w], weight [filters, c / groups, kernel_h, kernel_w], y [n, filters, oh, ow]
struct ConvShape {
  std::int64_t n, c, h, w, filters, oh, ow, groups;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
  auto operator<=>(const ConvShape&) const = default;
};
/// bias: null without
cudaError_t convolve(const float* x, const float* weight, const float* bias, float* y, bool has_relu, ConvShape shape,
                     cudaStream_t stream);
cudaError_t convolve_input_gradient(const float* dy, const float* weight, float* dx, ConvShape shape,
                                    cudaStream_t stream);
cudaError_t convolve_weight_gradient(const float* x, const float* dy, float* weight_grad, ConvShape shape,
                                     cudaStream_t stream);
cudaError_t convolve_bias_gradient(const float* dy, float* bias_grad, ConvShape shape, cudaStream_t stream);
/// y += bias per filter (null: none), then relu.
cudaError_t finish_convolution(float* y, const float* bias, bool has_relu, ConvShape shape, cudaStream_t stream);

// ---- pool2d.cu: images [planes, h, w] -> [planes, oh, ow], windows as in Pool2dSpec
struct PoolShape {
  std::int64_t planes, h, w, oh, ow;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, top, left;
  bool is_max;
};
cudaError_t pool(const float* x, float* y, PoolShape shape, cudaStream_t stream);
/// x: read for max pooling only.
cudaError_t pool_gradient(const float* x, const float* dy, float* dx, PoolShape shape, cudaStream_t stream);

// ---- dropout.cu
/// to = from / (1 - rate) where the element is kept, else 0 (DropoutSpec's mask). words: key and counter of
/// RandomStream for the first row's sample, whose row number is first_row.
struct DropoutKey {
  std::uint32_t key[2];
  std::uint32_t counter[2];
};
cudaError_t dropout(const float* from, float* to, float rate, DropoutKey key, std::uint32_t first_row,
                    std::int64_t rows, std::int64_t elements, cudaStream_t stream);

// ---- attention.cu: AttentionSpec with all weights in memory: [n, heads, length, keys] each
struct AttentionShape {
  std::int64_t n, length, width;  ///< of x: queries, keys and values side by side
  std::int64_t keys, key_width;   ///< positions and row length of `rows`, which holds keys and values as x does
  std::int64_t heads, kv_heads, head_dim;
  std::int64_t first_position;  ///< of x, where rows is a cache
  bool is_causal;
  std::int64_t weights() const { return n * heads * length * keys; }
};
struct AttentionDropout {
  float rate;  ///< 0: none
  DropoutKey key;
  std::uint32_t first_row;
};
/// weights = softmax of the scores (0 where not seen); kept = weights behind dropout (may be weights where rate is 0).
cudaError_t attention_weights(const float* x, const float* rows, float* weights, float* kept, AttentionShape shape,
                              AttentionDropout dropout, cudaStream_t stream);
cudaError_t attention_output(const float* rows, const float* kept, float* y, AttentionShape shape, cudaStream_t stream);
/// grads: room like weights. dx: gradient of x, overwritten; without cache.
cudaError_t attention_gradient(const float* x, const float* weights, const float* kept, const float* dy, float* grads,
                               float* dx, AttentionShape shape, AttentionDropout dropout, cudaStream_t stream);

// ---- layer_norm.cu
/// Per row: y = gamma (x - mean) / sqrt(var + epsilon) + beta; moments[2 r] = mean, moments[2 r + 1] = 1 / sqrt(...).
cudaError_t layer_norm(const float* x, const float* gamma, const float* beta, float* y, float* moments, float epsilon,
                       std::int64_t rows, std::int64_t columns, cudaStream_t stream);
/// dx may be null, or dy.
cudaError_t layer_norm_gradient(const float* x, const float* gamma, const float* moments, const float* dy, float* dx,
                                float* gamma_grad, float* beta_grad, std::int64_t rows, std::int64_t columns,
                                cudaStream_t stream);

// ---- batch_norm.cu: images [rows, channels, image]; sums are 2 * channels doubles, moments 2 * channels floats
// (means, then 1 / deviation)
struct Images {
  std::int64_t rows, channels, image;
  std::int64_t count() const { return rows * channels * image; }
};
/// sums of x, then of x^2
cudaError_t channel_sums(const float* x, double* sums, Images images, cudaStream_t stream);
/// moments of sums over `count` elements a channel; where deferred is not null, deferred += share * (mean, variance for
/// the running values).
cudaError_t channel_moments(const double* sums, double count, float epsilon, float* moments, double* deferred,
                            double share, std::int64_t channels, cudaStream_t stream);
/// moments of the running mean and variance
cudaError_t running_moments(const float* mean, const float* variance, float epsilon, float* moments,
                            std::int64_t channels, cudaStream_t stream);
/// y = gamma (x - mean) / deviation + beta + residual (null: none), then relu where asked for
cudaError_t channel_normalise(const float* x, const float* residual, const float* moments, const float* gamma,
                              const float* beta, float* y, bool has_relu, Images images, cudaStream_t stream);
/// g: dy where y > 0 or there is no relu. sums of g, then of g xhat.
cudaError_t channel_gradient_sums(const float* x, const float* y, const float* dy, const float* moments, double* sums,
                                  bool has_relu, Images images, cudaStream_t stream);
/// dx = gamma / deviation (g - mean(g) - xhat mean(g xhat)), the means being sums / count; d_residual = g. Either null.
cudaError_t channel_input_gradient(const float* x, const float* y, const float* dy, const float* moments,
                                   const float* gamma, const double* sums, double count, float* dx, float* d_residual,
                                   bool has_relu, Images images, cudaStream_t stream);
/// gamma_grad and beta_grad from sums; added to them where is_more.
cudaError_t channel_param_gradient(const double* sums, float* gamma_grad, float* beta_grad, bool is_more,
                                   std::int64_t channels, cudaStream_t stream);
/// running = (1 - momentum) running + momentum value; values: means, then variances. Where count > 0, values are sums
/// and sums of squares of so many elements.
cudaError_t update_running(float* mean, float* variance, const double* values, double count, double momentum,
                           std::int64_t channels, cudaStream_t stream);

// ---- loss.cu
/// Per row of logits [rows, classes]: loss[r], and, where grad is not null, (softmax - target) * scale.
cudaError_t softmax_cross_entropy(const float* logits, const std::int32_t* labels, float* loss, float* grad,
                                  float smoothing, float scale, std::int64_t rows, std::int64_t classes,
                                  cudaStream_t stream);
/// Per row: the mean over the columns of (v - t)^2, or of the sigmoid cross-entropy; grad as above.
cudaError_t mean_squared_error(const float* values, const float* targets, float* loss, float* grad, float scale,
                               std::int64_t rows, std::int64_t columns, cudaStream_t stream);
cudaError_t binary_cross_entropy(const float* values, const float* targets, float* loss, float* grad, float scale,
                                 std::int64_t rows, std::int64_t columns, cudaStream_t stream);
/// means[r] = mean over columns of x[r, :]
cudaError_t row_means(const float* x, float* means, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

// ---- optimizer.cu: one slice of weights w, gradients g and state, formulas of src/optim
struct SgdStep {
  float lr, scale, momentum, decay;
  bool is_nesterov;
};
/// v: null without momentum.
cudaError_t sgd(float* w, const float* g, float* v, SgdStep step, std::int64_t count, cudaStream_t stream);
struct RmsPropStep {
  float lr, scale, rate, rest, epsilon, decay;
};
cudaError_t rmsprop(float* w, const float* g, float* s, RmsPropStep step, std::int64_t count, cudaStream_t stream);
struct AdamStep {
  float scale, beta1, rest1, beta2, rest2, step_size, inverse_root, epsilon, coupled, shrink;
};
cudaError_t adam(float* w, const float* g, float* m, float* v, AdamStep step, std::int64_t count, cudaStream_t stream);

}  // namespace muster::device::cuda
