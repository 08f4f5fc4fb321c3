// Scaled dot-product attention (Vaswani et al. 2017), one query at a time, all weights drawn up anew in the backward
// pass; the truth for other backends. With a cache, keys and values of earlier calls lie in cache_.
#include "device/ref/ref.hpp"

#include <muster/base/rng.hpp>

namespace muster::device::ref {
namespace {

class Attention : public RefOp {
 public:
  Attention(const OpRequest& request, const AttentionSpec& spec)
      : RefOp(request), spec_(spec), length_(request.inputs[0].shape[1]), width_(last_extent()) {
    MUSTER_CHECK(spec.cache == 0 || !request.is_training, "caches are for inference");
    traits_.backward_reads_input[0] = true;
    cache_.resize(static_cast<std::size_t>(rows_ * spec.cache * width_));
  }

  void forward(int, const RunContext& context) override {
    keep(context);
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t h = 0; h < spec_.heads; ++h)
        for (std::int64_t i = 0; i < length_; ++i) {
          const std::vector<double> p = weights(n, h, i, context), f = factors(n, h, i, context);
          for (std::int64_t d = 0; d < spec_.head_dim; ++d) {
            double sum = 0;
            for (std::size_t j = 0; j < p.size(); ++j) sum += p[j] * f[j] * at(value(n, h, j) + d);
            y()[((n * length_ + i) * spec_.heads + h) * spec_.head_dim + d] = static_cast<float>(sum);
          }
        }
  }

  void backward(int, const RunContext& context) override {
    if (!wants_grad()) return;
    grad_.assign(static_cast<std::size_t>(input_elements()), 0.0);
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t h = 0; h < spec_.heads; ++h)
        for (std::int64_t i = 0; i < length_; ++i) backward_query(n, h, i, context);
    std::copy(grad_.begin(), grad_.end(), dx());
  }

 private:
  static double at(const float* p) { return static_cast<double>(*p); }
  std::int64_t kv_head(std::int64_t h) const { return h / (spec_.heads / spec_.kv_heads); }
  /// Where in the input sample n, position j keeps the query, key or value of head h.
  std::int64_t query_at(std::int64_t n, std::int64_t h, std::int64_t i) const {
    return (n * length_ + i) * width_ + h * spec_.head_dim;
  }
  std::int64_t key_column(std::int64_t h) const { return (spec_.heads + kv_head(h)) * spec_.head_dim; }
  std::int64_t value_column(std::int64_t h) const {
    return (spec_.heads + spec_.kv_heads + kv_head(h)) * spec_.head_dim;
  }
  const float* row(std::int64_t n, std::size_t j) const {
    const auto position = static_cast<std::int64_t>(j);
    return spec_.cache > 0 ? cache_.data() + (n * spec_.cache + position) * width_
                           : x() + (n * length_ + position) * width_;
  }
  const float* value(std::int64_t n, std::int64_t h, std::size_t j) const { return row(n, j) + value_column(h); }

  void keep(const RunContext& context) {
    if (spec_.cache == 0) return;
    MUSTER_CHECK(context.position + length_ <= spec_.cache, "position {} of {}", context.position, spec_.cache);
    for (std::int64_t n = 0; n < rows_; ++n)
      std::copy_n(x() + n * length_ * width_, length_ * width_,
                  cache_.data() + (n * spec_.cache + context.position) * width_);
  }

  double scale() const { return 1.0 / std::sqrt(static_cast<double>(spec_.head_dim)); }

  /// Softmax of the scores of query i, over the positions that it sees.
  std::vector<double> weights(std::int64_t n, std::int64_t h, std::int64_t i, const RunContext& context) const {
    const std::int64_t seen = spec_.is_causal ? context.position + i + 1 : length_;
    std::vector<double> p(static_cast<std::size_t>(seen));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      for (std::int64_t d = 0; d < spec_.head_dim; ++d)
        p[j] += at(x() + query_at(n, h, i) + d) * at(row(n, j) + key_column(h) + d);
      p[j] *= scale();
      largest = std::max(largest, p[j]);
    }
    for (double& v : p) sum += v = std::exp(v - largest);
    for (double& v : p) v /= sum;
    return p;
  }

  /// What dropout multiplies the weights of query i by.
  std::vector<double> factors(std::int64_t n, std::int64_t h, std::int64_t i, const RunContext& context) const {
    std::vector<double> f(static_cast<std::size_t>(context.position + length_), 1.0);
    if (!request_.is_training || spec_.dropout == 0) return f;
    const RandomStream stream(
        context.seed, Purpose::dropout,
        (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(context.step),
        static_cast<std::uint32_t>(context.first_row + n));
    const std::int64_t first = (h * length_ + i) * ((length_ + 3) / 4 * 4);
    for (std::size_t j = 0; j < f.size(); ++j)
      f[j] = stream.uniform(static_cast<std::uint64_t>(first) + j) >= spec_.dropout
                 ? 1.0 / (1.0 - static_cast<double>(spec_.dropout))
                 : 0.0;
    return f;
  }

  void backward_query(std::int64_t n, std::int64_t h, std::int64_t i, const RunContext& context) {
    const std::vector<double> p = weights(n, h, i, context), f = factors(n, h, i, context);
    const float* g = dy() + ((n * length_ + i) * spec_.heads + h) * spec_.head_dim;
    std::vector<double> grad_p(p.size(), 0.0);
    double mean = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      for (std::int64_t d = 0; d < spec_.head_dim; ++d) grad_p[j] += f[j] * at(g + d) * at(value(n, h, j) + d);
      mean += p[j] * grad_p[j];
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      const double grad_score = p[j] * (grad_p[j] - mean) * scale();
      const auto position = static_cast<std::int64_t>(j);
      const std::int64_t start = (n * length_ + position) * width_, query = query_at(n, h, i);
      for (std::int64_t d = 0; d < spec_.head_dim; ++d) {
        grad_[static_cast<std::size_t>(query + d)] += grad_score * at(row(n, j) + key_column(h) + d);
        grad_[static_cast<std::size_t>(start + key_column(h) + d)] += grad_score * at(x() + query + d);
        grad_[static_cast<std::size_t>(start + value_column(h) + d)] += p[j] * f[j] * at(g + d);
      }
    }
  }

  AttentionSpec spec_;
  std::int64_t length_, width_;
  std::vector<float> cache_;
  std::vector<double> grad_;
};

}  // namespace

std::unique_ptr<Op> make_attention(const OpRequest& request, const AttentionSpec& spec) {
  return std::make_unique<Attention>(request, spec);
}

}  // namespace muster::device::ref
