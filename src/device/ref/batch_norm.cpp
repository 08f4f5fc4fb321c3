// Batch norm. Statistics between the phases (global scope), per channel:
//   forward   [sum of x, sum of x^2]                 phase 0: own share    phase 1: totals over the global batch
//   backward  [sum of g, sum of g * xhat]            g: gradient behind the fused activation
// The parameter gradients are the own share only (gradients are summed over micro-batches later), so it is kept in
// `saved` before the totals come. Group scope: statistics of each group of `group` rows, kept in `saved`; the deferred
// statistics are [sum over groups of rows/global_rows * mean, the same of the unbiased variance].
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class BatchNorm : public RefOp {
 public:
  BatchNorm(const OpRequest& request, const BatchNormSpec& spec) : RefOp(request), spec_(spec) {
    c_ = request.inputs[0].shape[1];
    image_ = request.inputs[0].shape.rank() == 4 ? request.inputs[0].shape[2] * request.inputs[0].shape[3] : 1;
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = spec_.activation != Activation::none;
    if (!request.is_training) return;
    if (is_global()) {
      traits_.forward_phases = traits_.backward_phases = 2;
      traits_.forward_statistics = traits_.backward_statistics = 2 * c_;
    } else {
      traits_.deferred_statistics = 2 * c_;
    }
    const std::int64_t groups = is_global() ? 1 : (rows_ + spec_.group - 1) / spec_.group;
    traits_.saved_bytes = static_cast<std::size_t>(groups * 4 * c_) * sizeof(double);  // mean, 1/deviation, own sums
  }

  void forward(int phase, const RunContext& context) override {
    if (!request_.is_training) {
      for (std::int64_t c = 0; c < c_; ++c)
        normalise(c, {0, rows_}, static_cast<double>(buffers_.state[0][c]),
                  1.0 / std::sqrt(static_cast<double>(buffers_.state[1][c]) + static_cast<double>(spec_.epsilon)));
      return;
    }
    if (!is_global()) return forward_groups(context);
    const double count = static_cast<double>(context.global_rows * image_);
    for (std::int64_t c = 0; c < c_; ++c) {
      auto& sum = forward_statistics_[static_cast<std::size_t>(c)];
      auto& sum_of_squares = forward_statistics_[static_cast<std::size_t>(c_ + c)];
      if (phase == 0) {
        sums(c, {0, rows_}, sum, sum_of_squares);
        continue;
      }
      const double mean = sum / count;
      const double variance = std::max(sum_of_squares / count - mean * mean, 0.0);
      Moments& m = moments(0, c);
      m.mean = mean;
      m.inverse_deviation = 1.0 / std::sqrt(variance + static_cast<double>(spec_.epsilon));
      normalise(c, {0, rows_}, m.mean, m.inverse_deviation);
    }
  }

  void backward(int phase, const RunContext& context) override {
    if (!is_global()) return backward_groups();
    const double count = static_cast<double>(context.global_rows * image_);
    for (std::int64_t c = 0; c < c_; ++c) {
      Moments& m = moments(0, c);
      auto& sum = backward_statistics_[static_cast<std::size_t>(c)];
      auto& sum_with_x = backward_statistics_[static_cast<std::size_t>(c_ + c)];
      if (phase == 0) {
        grad_sums(c, {0, rows_}, m);
        sum = m.own_sum;
        sum_with_x = m.own_sum_with_x;
        continue;
      }
      buffers_.param_grads[0][c] = static_cast<float>(m.own_sum_with_x);
      buffers_.param_grads[1][c] = static_cast<float>(m.own_sum);
      input_grads(c, {0, rows_}, m, sum / count, sum_with_x / count);
    }
  }

  void end_step(const RunContext& context) override {
    if (!request_.is_training) return;
    const double momentum = static_cast<double>(spec_.momentum);
    const double count = static_cast<double>(context.global_rows * image_);
    for (std::int64_t c = 0; c < c_; ++c) {
      double mean = 0, variance = 0;
      if (is_global()) {
        mean = forward_statistics_[static_cast<std::size_t>(c)] / count;
        variance = std::max(forward_statistics_[static_cast<std::size_t>(c_ + c)] / count - mean * mean, 0.0);
        if (count > 1) variance *= count / (count - 1);
      } else {
        mean = deferred_statistics_[static_cast<std::size_t>(c)];
        variance = deferred_statistics_[static_cast<std::size_t>(c_ + c)];
      }
      update(buffers_.state[0][c], mean, momentum);
      update(buffers_.state[1][c], variance, momentum);
    }
  }

 private:
  struct Moments {
    double mean, inverse_deviation, own_sum, own_sum_with_x;
  };
  bool is_global() const { return spec_.group == 0; }
  Moments& moments(std::int64_t group, std::int64_t c) const {
    return static_cast<Moments*>(buffers_.saved)[group * c_ + c];
  }
  static void update(float& running, double value, double momentum) {
    running = static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
  }

  template <class Visit>
  void each(std::int64_t c, Range rows, Visit visit) const {
    for (std::int64_t n = rows.begin; n < rows.end; ++n)
      for (std::int64_t i = 0; i < image_; ++i) visit((n * c_ + c) * image_ + i);
  }

  void sums(std::int64_t c, Range rows, double& sum, double& sum_of_squares) const {
    sum = sum_of_squares = 0;
    each(c, rows, [&](std::int64_t i) {
      const double v = static_cast<double>(x()[i]);
      sum += v;
      sum_of_squares += v * v;
    });
  }

  void normalise(std::int64_t c, Range rows, double mean, double inverse_deviation) const {
    const double gamma = static_cast<double>(buffers_.params[0][c]), beta = static_cast<double>(buffers_.params[1][c]);
    each(c, rows, [&](std::int64_t i) {
      double v = gamma * (static_cast<double>(x()[i]) - mean) * inverse_deviation + beta;
      if (spec_.has_residual) v += static_cast<double>(x(1)[i]);
      y()[i] = static_cast<float>(activate(spec_.activation, v));
    });
  }

  void grad_sums(std::int64_t c, Range rows, Moments& m) const {
    m.own_sum = m.own_sum_with_x = 0;
    each(c, rows, [&](std::int64_t i) {
      const double g = behind_activation(spec_.activation, i);
      m.own_sum += g;
      m.own_sum_with_x += g * (static_cast<double>(x()[i]) - m.mean) * m.inverse_deviation;
    });
  }

  /// mean_grad, mean_grad_with_x: over all samples that share the statistics.
  void input_grads(std::int64_t c, Range rows, const Moments& m, double mean_grad, double mean_grad_with_x) const {
    const double gamma = static_cast<double>(buffers_.params[0][c]);
    each(c, rows, [&](std::int64_t i) {
      const double g = behind_activation(spec_.activation, i);
      const double xhat = (static_cast<double>(x()[i]) - m.mean) * m.inverse_deviation;
      if (wants_grad(0))
        dx(0)[i] = static_cast<float>(gamma * m.inverse_deviation * (g - mean_grad - xhat * mean_grad_with_x));
      if (spec_.has_residual && wants_grad(1)) dx(1)[i] = static_cast<float>(g);
    });
  }

  template <class Visit>
  void each_group(Visit visit) const {
    for (std::int64_t first = 0, group = 0; first < rows_; first += spec_.group, ++group)
      visit(group, Range{first, std::min(first + spec_.group, rows_)});
  }

  void forward_groups(const RunContext& context) {
    MUSTER_CHECK(context.first_row % spec_.group == 0, "row {} in groups of {}", context.first_row, spec_.group);
    std::fill(deferred_statistics_.begin(), deferred_statistics_.end(), 0.0);
    each_group([&](std::int64_t group, Range rows) {
      const double count = static_cast<double>(rows.size() * image_);
      const double share = static_cast<double>(rows.size()) / static_cast<double>(context.global_rows);
      for (std::int64_t c = 0; c < c_; ++c) {
        double sum = 0, sum_of_squares = 0;
        sums(c, rows, sum, sum_of_squares);
        const double mean = sum / count;
        const double variance = std::max(sum_of_squares / count - mean * mean, 0.0);
        Moments& m = moments(group, c);
        m.mean = mean;
        m.inverse_deviation = 1.0 / std::sqrt(variance + static_cast<double>(spec_.epsilon));
        normalise(c, rows, m.mean, m.inverse_deviation);
        deferred_statistics_[static_cast<std::size_t>(c)] += share * mean;
        deferred_statistics_[static_cast<std::size_t>(c_ + c)] +=
            share * (count > 1 ? variance * count / (count - 1) : variance);
      }
    });
  }

  void backward_groups() {
    for (std::int64_t c = 0; c < c_; ++c) {
      double sum = 0, sum_with_x = 0;
      each_group([&](std::int64_t group, Range rows) {
        Moments& m = moments(group, c);
        grad_sums(c, rows, m);
        sum += m.own_sum;
        sum_with_x += m.own_sum_with_x;
        const double count = static_cast<double>(rows.size() * image_);
        input_grads(c, rows, m, m.own_sum / count, m.own_sum_with_x / count);
      });
      buffers_.param_grads[0][c] = static_cast<float>(sum_with_x);
      buffers_.param_grads[1][c] = static_cast<float>(sum);
    }
  }

  BatchNormSpec spec_;
  std::int64_t c_ = 0, image_ = 1;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const OpRequest& request, const BatchNormSpec& spec) {
  return std::make_unique<BatchNorm>(request, spec);
}

}  // namespace muster::device::ref
