// Batch normalisation. Sums over the global batch leave for the host between the two phases and come back as totals;
// groups stay on the device and hand out only what the running values need, once per micro-batch.
#include "device/cuda/cuda_op.hpp"

#include <muster/base/check.hpp>
#include <muster/base/ids.hpp>

#include <algorithm>

namespace muster::device::cuda {
namespace {

class BatchNorm : public CudaOp {
 public:
  BatchNorm(Context& context, const OpRequest& request, const BatchNormSpec& spec)
      : CudaOp(context, request), spec_(spec) {
    const Shape& in = request.inputs[0].shape;
    channels_ = in[1];
    image_ = in.rank() == 4 ? in[2] * in[3] : 1;
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = has_relu();
    const std::int64_t groups = is_global() ? 1 : (rows_ + spec_.group - 1) / spec_.group;
    traits_.saved_bytes = static_cast<std::size_t>(groups * 2 * channels_) * sizeof(float);  // moments
    sums_ = allocate_device(sum_bytes());
    own_sums_ = allocate_device(sum_bytes());
    if (!request.is_training) return;
    if (is_global()) {
      traits_.forward_phases = traits_.backward_phases = 2;
      traits_.forward_statistics = traits_.backward_statistics = 2 * channels_;
    } else {
      traits_.deferred_statistics = 2 * channels_;
    }
  }

  void forward(int phase, const RunContext& run) override {
    const Images all = rows({0, rows_});
    if (!request_.is_training) {
      CUDA_CHECK(running_moments(buffers_.state[0], buffers_.state[1], spec_.epsilon, moments(0), channels_, stream()));
      normalise(0, {0, rows_});
    } else if (!is_global()) {
      forward_groups(run);
    } else if (phase == 0) {
      CUDA_CHECK(channel_sums(x(), sums(), all, stream()));
      context_.copy_out(forward_statistics_.data(), sums(), sum_bytes());
    } else {
      context_.copy_in(sums(), forward_statistics_.data(), sum_bytes());
      CUDA_CHECK(
          channel_moments(sums(), global_count(run), spec_.epsilon, moments(0), nullptr, 0, channels_, stream()));
      normalise(0, {0, rows_});
    }
  }

  void backward(int phase, const RunContext& run) override {
    if (!is_global()) {
      each_group([&](std::int64_t group, Range range) {
        gradient_sums(group, range);
        params_gradient(group > 0);
        input_gradient(group, range, own_sums(), static_cast<double>(range.size() * image_));
      });
    } else if (phase == 0) {
      gradient_sums(0, {0, rows_});
      context_.copy_out(backward_statistics_.data(), own_sums(), sum_bytes());
    } else {
      params_gradient(false);
      context_.copy_in(sums(), backward_statistics_.data(), sum_bytes());
      input_gradient(0, {0, rows_}, sums(), global_count(run));
    }
  }

  void end_step(const RunContext& run) override {
    if (!request_.is_training) return;
    const std::span<double> values = is_global() ? forward_statistics_ : deferred_statistics_;
    context_.copy_in(sums(), values.data(), sum_bytes());
    CUDA_CHECK(update_running(buffers_.state[0], buffers_.state[1], sums(), is_global() ? global_count(run) : 0.0,
                              static_cast<double>(spec_.momentum), channels_, stream()));
  }

 private:
  bool is_global() const { return spec_.group == 0; }
  bool has_relu() const { return spec_.activation == Activation::relu; }
  double global_count(const RunContext& run) const { return static_cast<double>(run.global_rows * image_); }
  std::size_t sum_bytes() const { return static_cast<std::size_t>(2 * channels_) * sizeof(double); }
  double* sums() const { return static_cast<double*>(sums_.get()); }
  double* own_sums() const { return static_cast<double*>(own_sums_.get()); }
  float* moments(std::int64_t group) const { return static_cast<float*>(buffers_.saved) + group * 2 * channels_; }
  Images rows(Range range) const { return {range.size(), channels_, image_}; }
  std::int64_t first(Range range) const { return range.begin * channels_ * image_; }

  template <class Visit>
  void each_group(const Visit& visit) const {
    for (std::int64_t begin = 0, group = 0; begin < rows_; begin += spec_.group, ++group)
      visit(group, Range{begin, std::min(begin + spec_.group, rows_)});
  }

  void forward_groups(const RunContext& run) {
    MUSTER_CHECK(run.first_row % spec_.group == 0, "row {} in groups of {}", run.first_row, spec_.group);
    CUDA_CHECK(cudaMemsetAsync(own_sums(), 0, sum_bytes(), stream()));  // of the running values
    each_group([&](std::int64_t group, Range range) {
      const double share = static_cast<double>(range.size()) / static_cast<double>(run.global_rows);
      CUDA_CHECK(channel_sums(x() + first(range), sums(), rows(range), stream()));
      CUDA_CHECK(channel_moments(sums(), static_cast<double>(range.size() * image_), spec_.epsilon, moments(group),
                                 own_sums(), share, channels_, stream()));
      normalise(group, range);
    });
    context_.copy_out(deferred_statistics_.data(), own_sums(), sum_bytes());
  }

  void normalise(std::int64_t group, Range range) {
    const float* residual = spec_.has_residual ? x(1) + first(range) : nullptr;
    CUDA_CHECK(channel_normalise(x() + first(range), residual, moments(group), buffers_.params[0], buffers_.params[1],
                                 y() + first(range), has_relu(), rows(range), stream()));
  }

  void gradient_sums(std::int64_t group, Range range) {
    const std::int64_t at = first(range);
    CUDA_CHECK(channel_gradient_sums(x() + at, y() + at, dy() + at, moments(group), own_sums(), has_relu(), rows(range),
                                     stream()));
  }

  void params_gradient(bool is_more) {
    CUDA_CHECK(channel_param_gradient(own_sums(), buffers_.param_grads[0], buffers_.param_grads[1], is_more, channels_,
                                      stream()));
  }

  void input_gradient(std::int64_t group, Range range, const double* totals, double count) {
    const std::int64_t at = first(range);
    float* of_input = dx(0) ? dx(0) + at : nullptr;
    float* of_residual = spec_.has_residual && dx(1) ? dx(1) + at : nullptr;
    if (!of_input && !of_residual) return;
    CUDA_CHECK(channel_input_gradient(x() + at, y() + at, dy() + at, moments(group), buffers_.params[0], totals, count,
                                      of_input, of_residual, has_relu(), rows(range), stream()));
  }

  BatchNormSpec spec_;
  std::int64_t channels_ = 0, image_ = 1;
  DeviceMemory sums_, own_sums_;  // own: of this micro-batch, where the totals of all are in sums_
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(Context& context, const OpRequest& request, const BatchNormSpec& spec) {
  return std::make_unique<BatchNorm>(context, request, spec);
}

}  // namespace muster::device::cuda
