// Batch norm by own loops, fused with the residual sum and relu. What goes into the statistics, and what the deferred
// statistics are, is described in ref/batch_norm.cpp; this is the same mathematics at memory speed:
//   y = a x + b [+ r],      a = gamma / deviation, b = beta - mean a            one pass over memory
//   dx = a (g - k1 - k2 (x - mean)),   k1 = mean of g, k2 = mean of g xhat / deviation
#include "device/cpu/adapter.hpp"
#include "device/cpu/channel_loops.hpp"

#include <cmath>

namespace muster::device::cpu {
namespace {

class BatchNorm : public CpuOp {
 public:
  BatchNorm(const OpRequest& request, const BatchNormSpec& spec) : CpuOp(request), spec_(spec) {
    const bool is_loopable = image_layout(request.inputs[0]).has_value();
    working_ = is_loopable ? request.inputs[0] : TensorDesc{request.inputs[0].shape, DType::f32, nullptr};
    image_ = *image_layout(working_);
    output_ = working_;
    output_.shape = output_shape_;
    padded_ = image_.blocks * image_.block;
    input_adapter_ = LayoutAdapter(request.inputs[0], working_);
    if (spec_.has_residual) residual_adapter_ = LayoutAdapter(request.inputs[1], working_);

    Pieces in_saved, in_scratch;
    value_at_[0] = (request.is_training ? in_saved : in_scratch).add(input_adapter_.value_bytes());
    value_at_[1] = in_scratch.add(residual_adapter_.value_bytes());
    grad_at_[0] = in_scratch.add(input_adapter_.grad_bytes());
    grad_at_[1] = in_scratch.add(residual_adapter_.grad_bytes());
    scratchpad_at_ = in_scratch.add(std::max(input_adapter_.scratchpad_bytes(), residual_adapter_.scratchpad_bytes()));
    const std::size_t floats = static_cast<std::size_t>(padded_) * sizeof(float),
                      doubles = static_cast<std::size_t>(padded_) * sizeof(double);
    partial_at_ = in_scratch.add(static_cast<std::size_t>(threads_) * 2 * doubles);
    coefficients_at_ = in_scratch.add(4 * floats);
    const std::int64_t groups = is_global() ? 1 : (rows_ + spec_.group - 1) / spec_.group;
    if (request.is_training) {
      moments_at_ = in_saved.add(static_cast<std::size_t>(groups) * 2 * floats);  // mean, 1/deviation
      own_at_ = in_saved.add(2 * doubles);
      if (is_global()) {
        traits_.forward_phases = traits_.backward_phases = 2;
        traits_.forward_statistics = traits_.backward_statistics = 2 * image_.channels;
      } else {
        traits_.deferred_statistics = 2 * image_.channels;
      }
    }
    traits_.saved_bytes = in_saved.bytes();
    traits_.scratch_bytes = in_scratch.bytes();
    traits_.backward_reads_input[0] = !input_adapter_.is_needed();
    traits_.backward_reads_output = traits_.may_overwrite_output_grad = spec_.activation != Activation::none;
    if (spec_.has_residual) traits_.leaves_grad_of_input = {false, !residual_adapter_.is_needed()};
  }

  std::string implementation() const override { return fmt::format("own, blocks of {}", image_.block); }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    void* scratchpad = scratch(scratchpad_at_);
    x_ = x();
    if (input_adapter_.is_needed()) {
      x_ = reinterpret_cast<float*>(request_.is_training ? saved(value_at_[0]) : scratch(value_at_[0]));
      input_adapter_.bind_value(x(), const_cast<float*>(x_), scratchpad);
    }
    residual_ = nullptr;
    if (spec_.has_residual) {
      residual_ = x(1);
      if (residual_adapter_.is_needed()) {
        residual_ = reinterpret_cast<float*>(scratch(value_at_[1]));
        residual_adapter_.bind_value(x(1), const_cast<float*>(residual_), scratchpad);
      }
    }
    dx_ = bind_grad(0, input_adapter_, scratchpad);
    residual_grad_ = spec_.has_residual ? bind_grad(1, residual_adapter_, scratchpad) : nullptr;
  }

  void forward(int phase, const RunContext& context) override {
    if (phase == 0) input_adapter_.run_value();
    // The residual is converted into scratch, which lives for one call only: in the call that reads it.
    if (phase + 1 == traits_.forward_phases) residual_adapter_.run_value();
    if (!request_.is_training) {
      float *a = coefficient(0), *b = coefficient(1);
      std::fill(a, a + 2 * padded_, 0.0f);
      for (std::int64_t c = 0; c < image_.channels; ++c) {
        a[c] = buffers_.params[0][c] / std::sqrt(buffers_.state[1][c] + spec_.epsilon);
        b[c] = buffers_.params[1][c] - buffers_.state[0][c] * a[c];
      }
      normalise({0, rows_}, a, b);
    } else if (!is_global()) {
      forward_groups(context);
    } else if (phase == 0) {
      sum_values({0, rows_}, forward_statistics_.data(), forward_statistics_.data() + image_.channels);
    } else {
      const double count = static_cast<double>(context.global_rows * image_.pixels);
      set_moments(0, count, forward_statistics_.data(), forward_statistics_.data() + image_.channels);
      normalise_by(0, {0, rows_});
    }
  }

  void backward(int phase, const RunContext& context) override {
    if (!is_global()) return backward_groups();
    double* own = own_sums();
    if (phase == 0) {
      sum_grads({0, rows_}, 0, own, own + image_.channels);
      std::copy(own, own + 2 * image_.channels, backward_statistics_.begin());
      return;
    }
    const double count = static_cast<double>(context.global_rows * image_.pixels);
    write_param_grads(own, own + image_.channels);
    input_grads({0, rows_}, 0, count, backward_statistics_.data(), backward_statistics_.data() + image_.channels);
    input_adapter_.run_grad();
    residual_adapter_.run_grad();
  }

  void end_step(const RunContext& context) override {
    if (!request_.is_training) return;
    const double count = static_cast<double>(context.global_rows * image_.pixels),
                 momentum = static_cast<double>(spec_.momentum);
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      const auto i = static_cast<std::size_t>(c), j = static_cast<std::size_t>(image_.channels + c);
      double mean, variance;
      if (is_global()) {
        mean = forward_statistics_[i] / count;
        variance = std::max(forward_statistics_[j] / count - mean * mean, 0.0);
        if (count > 1) variance *= count / (count - 1);
      } else {
        mean = deferred_statistics_[i];
        variance = deferred_statistics_[j];
      }
      update(buffers_.state[0][c], mean, momentum);
      update(buffers_.state[1][c], variance, momentum);
    }
  }

 private:
  bool is_global() const { return spec_.group == 0; }
  float* coefficient(int k) const { return reinterpret_cast<float*>(scratch(coefficients_at_)) + k * padded_; }
  float* mean_of(std::int64_t group) const {
    return reinterpret_cast<float*>(saved(moments_at_)) + group * 2 * padded_;
  }
  float* inverse_of(std::int64_t group) const { return mean_of(group) + padded_; }
  double* own_sums() const { return reinterpret_cast<double*>(saved(own_at_)); }
  static void update(float& running, double value, double momentum) {
    running = static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
  }

  float* bind_grad(std::size_t k, LayoutAdapter& adapter, void* scratchpad) {
    if (!wants_grad(k)) return nullptr;
    if (!adapter.is_needed()) return dx(k);
    auto* working = reinterpret_cast<float*>(scratch(grad_at_[k]));
    adapter.bind_grad(working, dx(k), scratchpad);
    return working;
  }

  /// Runs body(thread's rows, thread) on all threads.
  template <class Body>
  void on_threads(Range rows, Body body) const {
    const int threads = rows.size() * image_.row_elements() < parallel_threshold ? 1 : threads_;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; ++t) body(rows_of_thread(rows, threads, t), t);
  }

  template <class Terms>
  void sum(Range rows, double* sums, double* products, Terms terms) const {
    auto* partial = reinterpret_cast<double*>(scratch(partial_at_));
    std::fill(partial, partial + threads_ * 2 * padded_, 0.0);
    on_threads(rows, [&](Range part, int t) {
      sum_channels(image_, part, partial + t * 2 * padded_, partial + (t * 2 + 1) * padded_, terms);
    });
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      sums[c] = products[c] = 0;
      for (int t = 0; t < threads_; ++t)
        sums[c] += partial[t * 2 * padded_ + c], products[c] += partial[(t * 2 + 1) * padded_ + c];
    }
  }

  /// Sums of x and of x^2. The float part of the sums runs over x minus the channel's first value: where the mean is
  /// far larger than the deviation, x^2 in float would leave nothing of the variance.
  void sum_values(Range rows, double* sums, double* squares) const {
    float* pivot = coefficient(0);
    std::fill(pivot, pivot + padded_, 0.0f);
    for (std::int64_t c = 0; c < image_.channels; ++c) pivot[c] = x_[image_.at(rows.begin, c, 0)];
    sum(rows, sums, squares, [x = x_, pivot](std::int64_t i, std::int64_t c, float& u, float& v) {
      u = x[i] - pivot[c];
      v = u * u;
    });
    const double count = static_cast<double>(rows.size() * image_.pixels);
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      const double p = static_cast<double>(pivot[c]);
      squares[c] += (2.0 * sums[c] + count * p) * p;
      sums[c] += count * p;
    }
  }

  /// Sums of g and of g * xhat, g the gradient behind the activation, which replaces the output's gradient.
  void sum_grads(Range rows, std::int64_t group, double* sums, double* products) const {
    const float *x = x_, *out = y(), *mean = mean_of(group), *inverse = inverse_of(group);
    float* g = own_dy();
    if (spec_.activation == Activation::relu)
      sum(rows, sums, products, [=](std::int64_t i, std::int64_t c, float& u, float& v) {
        u = out[i] > 0.0f ? g[i] : 0.0f;
        g[i] = u;
        v = u * (x[i] - mean[c]);
      });
    else
      sum(rows, sums, products, [=](std::int64_t i, std::int64_t c, float& u, float& v) {
        u = g[i];
        v = u * (x[i] - mean[c]);
      });
    for (std::int64_t c = 0; c < image_.channels; ++c) products[c] *= static_cast<double>(inverse[c]);
  }

  void set_moments(std::int64_t group, double count, const double* sums, const double* squares) const {
    float *mean = mean_of(group), *inverse = inverse_of(group);
    std::fill(mean, mean + 2 * padded_, 0.0f);
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      const double m = sums[c] / count, variance = std::max(squares[c] / count - m * m, 0.0);
      mean[c] = static_cast<float>(m);
      inverse[c] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(spec_.epsilon)));
    }
  }

  void normalise_by(std::int64_t group, Range rows) const {
    float *a = coefficient(0), *b = coefficient(1);
    std::fill(a, a + 2 * padded_, 0.0f);  // padding channels stay zero
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      a[c] = buffers_.params[0][c] * inverse_of(group)[c];
      b[c] = buffers_.params[1][c] - mean_of(group)[c] * a[c];
    }
    normalise(rows, a, b);
  }

  void normalise(Range rows, const float* a, const float* b) const {
    const float *x = x_, *r = residual_;
    float* out = y();
    const bool is_relu = spec_.activation == Activation::relu;
    on_threads(rows, [=, this](Range part, int) {
      if (r && is_relu)
        map_channels(image_, part,
                     [=](std::int64_t i, std::int64_t c) { out[i] = std::max(x[i] * a[c] + b[c] + r[i], 0.0f); });
      else if (r)
        map_channels(image_, part, [=](std::int64_t i, std::int64_t c) { out[i] = x[i] * a[c] + b[c] + r[i]; });
      else if (is_relu)
        map_channels(image_, part,
                     [=](std::int64_t i, std::int64_t c) { out[i] = std::max(x[i] * a[c] + b[c], 0.0f); });
      else map_channels(image_, part, [=](std::int64_t i, std::int64_t c) { out[i] = x[i] * a[c] + b[c]; });
    });
  }

  void input_grads(Range rows, std::int64_t group, double count, const double* sums, const double* products) const {
    float *a = coefficient(0), *k1 = coefficient(1), *k2 = coefficient(2);
    std::fill(a, a + 3 * padded_, 0.0f);
    const float *mean = mean_of(group), *inverse = inverse_of(group);
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      a[c] = buffers_.params[0][c] * inverse[c];
      k1[c] = static_cast<float>(sums[c] / count);
      k2[c] = static_cast<float>(products[c] / count) * inverse[c];
    }
    const float *x = x_, *g = dy();
    float *to = dx_, *to_residual = residual_grad_;
    const auto write = [=](std::int64_t i, std::int64_t c) {
      to[i] = a[c] * (g[i] - k1[c] - k2[c] * (x[i] - mean[c]));
    };
    on_threads(rows, [=, this](Range part, int) {
      if (to) map_channels(image_, part, write);
      if (to_residual) {
        const std::int64_t row = image_.row_elements();
        std::copy(g + part.begin * row, g + part.end * row, to_residual + part.begin * row);
      }
    });
  }

  void write_param_grads(const double* sums, const double* products) const {
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      buffers_.param_grads[0][c] = static_cast<float>(products[c]);
      buffers_.param_grads[1][c] = static_cast<float>(sums[c]);
    }
  }

  template <class Visit>
  void each_group(Visit visit) const {
    for (std::int64_t first = 0, group = 0; first < rows_; first += spec_.group, ++group)
      visit(group, Range{first, std::min(first + spec_.group, rows_)});
  }

  void forward_groups(const RunContext& context) {
    MUSTER_CHECK(context.first_row % spec_.group == 0, "row {} in groups of {}", context.first_row, spec_.group);
    std::fill(deferred_statistics_.begin(), deferred_statistics_.end(), 0.0);
    double *sums = own_sums(), *squares = sums + image_.channels;
    each_group([&](std::int64_t group, Range rows) {
      const double count = static_cast<double>(rows.size() * image_.pixels);
      const double share = static_cast<double>(rows.size()) / static_cast<double>(context.global_rows);
      sum_values(rows, sums, squares);
      set_moments(group, count, sums, squares);
      normalise_by(group, rows);
      for (std::int64_t c = 0; c < image_.channels; ++c) {
        const double mean = sums[c] / count, variance = std::max(squares[c] / count - mean * mean, 0.0);
        deferred_statistics_[static_cast<std::size_t>(c)] += share * mean;
        deferred_statistics_[static_cast<std::size_t>(image_.channels + c)] +=
            share * (count > 1 ? variance * count / (count - 1) : variance);
      }
    });
  }

  void backward_groups() {
    std::vector<double>& total = group_totals_;
    total.assign(static_cast<std::size_t>(2 * image_.channels), 0.0);
    double *sums = own_sums(), *products = sums + image_.channels;
    each_group([&](std::int64_t group, Range rows) {
      sum_grads(rows, group, sums, products);
      input_grads(rows, group, static_cast<double>(rows.size() * image_.pixels), sums, products);
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
    });
    write_param_grads(total.data(), total.data() + image_.channels);
    input_adapter_.run_grad();
    residual_adapter_.run_grad();
  }

  BatchNormSpec spec_;
  TensorDesc working_;
  ImageLayout image_;
  std::int64_t padded_ = 0;  // channels in whole blocks
  LayoutAdapter input_adapter_, residual_adapter_;
  std::size_t value_at_[2] = {}, grad_at_[2] = {}, scratchpad_at_ = 0, partial_at_ = 0, coefficients_at_ = 0,
              moments_at_ = 0, own_at_ = 0;
  const float* x_ = nullptr;
  const float* residual_ = nullptr;
  float* dx_ = nullptr;
  float* residual_grad_ = nullptr;
  std::vector<double> group_totals_;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const OpRequest& request, const BatchNormSpec& spec) {
  return std::make_unique<BatchNorm>(request, spec);
}

}  // namespace muster::device::cpu
