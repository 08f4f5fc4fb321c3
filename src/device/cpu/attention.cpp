// Attention in blocks of query rows (Dao et al., "FlashAttention", 2022): scores exist for one block at a time, the
// backward pass draws them up anew from the log of each row's sum. Products are oneDNN's sgemm, run by one thread each;
// threads share out samples and heads, so the bits depend on the shapes alone. In the backward pass one thread has all
// query heads of a key/value head.
#include "device/cpu/channel_loops.hpp"
#include "device/cpu/cpu_op.hpp"
#include "device/cpu/vector_math.hpp"

#include <muster/base/rng.hpp>

#include <omp.h>
#include <cmath>

namespace muster::device::cpu {
namespace {

constexpr std::int64_t block_rows = 64;

class Attention : public CpuOp {
 public:
  Attention(const OpRequest& request, const AttentionSpec& spec)
      : CpuOp(request), spec_(spec), length_(request.inputs[0].shape[1]), width_(request.inputs[0].shape[2]) {
    MUSTER_CHECK(spec.cache == 0 || !request.is_training, "caches are for inference");
    most_keys_ = std::max(length_, spec.cache);
    has_dropout_ = request.is_training && spec.dropout > 0;
    Pieces in_saved, in_scratch;
    log_sums_at_ = in_saved.add(static_cast<std::size_t>(rows_ * spec.heads * length_) * sizeof(float));
    if (request.is_training) traits_.saved_bytes = in_saved.bytes();
    thread_floats_ = (2 * block_rows * most_keys_ + most_keys_ + block_rows + 63) / 16 * 16;
    in_scratch.add(static_cast<std::size_t>(threads_ * thread_floats_) * sizeof(float));
    traits_.scratch_bytes = in_scratch.bytes();
    traits_.backward_reads_input[0] = traits_.backward_reads_output = true;
    cache_.resize(static_cast<std::size_t>(rows_ * spec.cache * cache_width()));
  }
  std::string implementation() const override { return "own:blocks, sgemm"; }

  void forward(int, const RunContext& context) override {
    keep(context);
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (std::int64_t item = 0; item < rows_ * spec_.heads; ++item)
      for (std::int64_t first = 0; first < length_; first += block_rows)
        forward_block({item / spec_.heads, item % spec_.heads, first, std::min(first + block_rows, length_)}, context);
  }

  void backward(int, const RunContext& context) override {
    if (!wants_grad()) return;
    const std::int64_t group = spec_.heads / spec_.kv_heads, last = (length_ - 1) / block_rows * block_rows;
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (std::int64_t item = 0; item < rows_ * spec_.kv_heads; ++item)
      for (std::int64_t g = 0; g < group; ++g)
        for (std::int64_t first = last; first >= 0; first -= block_rows) {  // the last block sees all keys
          const Block block{item / spec_.kv_heads, item % spec_.kv_heads * group + g, first,
                            std::min(first + block_rows, length_)};
          backward_block(block, context, g == 0 && first == last ? 0.0f : 1.0f);
        }
  }

 private:
  /// Query rows [begin, end) of one head of one sample.
  struct Block {
    std::int64_t sample, head, begin, end;
    std::int64_t rows() const { return end - begin; }
  };
  struct Matrix {
    const float* data;
    std::int64_t stride;
  };

  std::int64_t cache_width() const { return 2 * spec_.kv_heads * spec_.head_dim; }
  std::int64_t kv_column(std::int64_t head) const { return head / (spec_.heads / spec_.kv_heads) * spec_.head_dim; }
  std::int64_t key_offset(const Block& b) const { return spec_.heads * spec_.head_dim + kv_column(b.head); }
  std::int64_t value_offset(const Block& b) const { return key_offset(b) + spec_.kv_heads * spec_.head_dim; }
  std::int64_t query_offset(const Block& b) const {
    return (b.sample * length_ + b.begin) * width_ + b.head * spec_.head_dim;
  }
  std::int64_t output_offset(const Block& b) const {
    return ((b.sample * length_ + b.begin) * spec_.heads + b.head) * spec_.head_dim;
  }
  Matrix keys(const Block& b) const {
    if (spec_.cache > 0)
      return {cache_.data() + b.sample * spec_.cache * cache_width() + kv_column(b.head), cache_width()};
    return {x() + b.sample * length_ * width_ + key_offset(b), width_};
  }
  Matrix values(const Block& b) const {
    const Matrix k = keys(b);
    return {k.data + spec_.kv_heads * spec_.head_dim, k.stride};
  }
  std::int64_t keys_seen(const Block& b, const RunContext& context) const {
    return spec_.is_causal ? context.position + b.end : length_;
  }
  /// Keys that row r of the block sees.
  std::int64_t row_seen(const Block& b, std::int64_t r, const RunContext& context) const {
    return spec_.is_causal ? context.position + b.begin + r + 1 : length_;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(spec_.head_dim)); }
  float* thread_scratch() const { return reinterpret_cast<float*>(scratch()) + omp_get_thread_num() * thread_floats_; }
  float* log_sums(const Block& b) const {
    return reinterpret_cast<float*>(saved(log_sums_at_)) + (b.sample * spec_.heads + b.head) * length_ + b.begin;
  }

  void keep(const RunContext& context) {
    if (spec_.cache == 0) return;
    MUSTER_CHECK(context.position + length_ <= spec_.cache, "position {} of {}", context.position, spec_.cache);
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t t = 0; t < length_; ++t)
        std::copy_n(x() + (n * length_ + t) * width_ + spec_.heads * spec_.head_dim, cache_width(),
                    cache_.data() + (n * spec_.cache + context.position + t) * cache_width());
  }

  /// scores [rows, seen] = scale q k^T
  void compute_scores(const Block& b, std::int64_t seen, float* scores) const {
    const Matrix k = keys(b);
    dnnl::sgemm('N', 'T', b.rows(), seen, spec_.head_dim, scale(), x() + query_offset(b), width_, k.data, k.stride,
                0.0f, scores, seen);
  }

  /// 1/(1 - rate) or 0 for the weights of row r, in `factors`.
  void draw_factors(const Block& b, std::int64_t r, std::int64_t seen, const RunContext& context,
                    float* factors) const {
    const RandomStream stream(
        context.seed, Purpose::dropout,
        (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(context.step),
        static_cast<std::uint32_t>(context.first_row + b.sample));
    const std::int64_t block = (b.head * length_ + b.begin + r) * ((length_ + 3) / 4);
    std::array<std::uint32_t, 256> words;
    const float kept = 1.0f / (1.0f - spec_.dropout);
    for (std::int64_t j = 0; j < seen; j += words.size()) {
      const std::int64_t count = std::min<std::int64_t>(words.size(), seen - j);
      stream.fill(static_cast<std::uint32_t>(block + j / 4), {words.data(), static_cast<std::size_t>(count)});
      for (std::int64_t i = 0; i < count; ++i)
        factors[j + i] = RandomStream::unit(words[static_cast<std::size_t>(i)]) >= spec_.dropout ? kept : 0.0f;
    }
  }

  void forward_block(const Block& b, const RunContext& context) const {
    const std::int64_t seen = keys_seen(b, context);
    float *scores = thread_scratch(), *factors = scores + 2 * block_rows * most_keys_, *inverse = factors + most_keys_;
    compute_scores(b, seen, scores);
    for (std::int64_t r = 0; r < b.rows(); ++r) {
      float* row = scores + r * seen;
      const std::int64_t mine = row_seen(b, r, context);
      float largest = row[0], sum = 0;
#pragma omp simd reduction(max : largest)
      for (std::int64_t j = 0; j < mine; ++j) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < mine; ++j) {
        row[j] = vector_exp(row[j] - largest);
        sum += row[j];
      }
      std::fill(row + mine, row + seen, 0.0f);
      inverse[r] = 1.0f / sum;
      if (request_.is_training) log_sums(b)[r] = largest + std::log(sum);
      if (!has_dropout_) continue;
      draw_factors(b, r, mine, context, factors);
#pragma omp simd
      for (std::int64_t j = 0; j < mine; ++j) row[j] *= factors[j];
    }
    const Matrix v = values(b);
    const std::int64_t stride = spec_.heads * spec_.head_dim;
    float* out = y() + output_offset(b);
    dnnl::sgemm('N', 'N', b.rows(), spec_.head_dim, seen, 1.0f, scores, seen, v.data, v.stride, 0.0f, out, stride);
    for (std::int64_t r = 0; r < b.rows(); ++r)
#pragma omp simd
      for (std::int64_t d = 0; d < spec_.head_dim; ++d) out[r * stride + d] *= inverse[r];
  }

  /// previous: 0 where this is the first share of the key and value gradients, else 1.
  void backward_block(const Block& b, const RunContext& context, float previous) const {
    const std::int64_t seen = keys_seen(b, context), dim = spec_.head_dim, stride = spec_.heads * dim;
    float *weights = thread_scratch(), *grads = weights + block_rows * most_keys_;
    float* factors = grads + block_rows * most_keys_;
    const Matrix k = keys(b), v = values(b);
    const float *dout = dy() + output_offset(b), *out = y() + output_offset(b);
    float* dsample = dx() + b.sample * length_ * width_;
    compute_scores(b, seen, weights);
    dnnl::sgemm('N', 'T', b.rows(), seen, dim, 1.0f, dout, stride, v.data, v.stride, 0.0f, grads, seen);
    for (std::int64_t r = 0; r < b.rows(); ++r) {
      float delta = 0;
#pragma omp simd reduction(+ : delta)
      for (std::int64_t d = 0; d < dim; ++d) delta += dout[r * stride + d] * out[r * stride + d];
      backward_row(b, r, seen, delta, weights + r * seen, grads + r * seen, factors, context);
    }
    dnnl::sgemm('T', 'N', seen, dim, b.rows(), 1.0f, weights, seen, dout, stride, previous, dsample + value_offset(b),
                width_);
    dnnl::sgemm('T', 'N', seen, dim, b.rows(), 1.0f, grads, seen, x() + query_offset(b), width_, previous,
                dsample + key_offset(b), width_);
    dnnl::sgemm('N', 'N', b.rows(), dim, seen, 1.0f, grads, seen, k.data, k.stride, 0.0f, dx() + query_offset(b),
                width_);
  }

  /// weights: scores -> weights behind dropout; grads: of those weights -> of the scores before their scale.
  void backward_row(const Block& b, std::int64_t r, std::int64_t seen, float delta, float* weights, float* grads,
                    float* factors, const RunContext& context) const {
    const std::int64_t mine = row_seen(b, r, context);
    const float log_sum = log_sums(b)[r], by = scale();
    if (has_dropout_) {
      draw_factors(b, r, mine, context, factors);
#pragma omp simd
      for (std::int64_t j = 0; j < mine; ++j) {
        const float p = vector_exp(weights[j] - log_sum);
        grads[j] = p * (grads[j] * factors[j] - delta) * by;
        weights[j] = p * factors[j];
      }
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < mine; ++j) {
        const float p = vector_exp(weights[j] - log_sum);
        grads[j] = p * (grads[j] - delta) * by;
        weights[j] = p;
      }
    }
    std::fill(weights + mine, weights + seen, 0.0f);
    std::fill(grads + mine, grads + seen, 0.0f);
  }

  AttentionSpec spec_;
  std::int64_t length_, width_, most_keys_ = 0, thread_floats_ = 0;
  bool has_dropout_ = false;
  std::size_t log_sums_at_ = 0;
  std::vector<float> cache_;  // [n, cache, keys and values of all heads]
};

}  // namespace

std::unique_ptr<Op> make_attention(const OpRequest& request, const AttentionSpec& spec) {
  return std::make_unique<Attention>(request, spec);
}

}  // namespace muster::device::cpu
