// Adds a trained vector per position; gradients sum over the samples in order, threads share out the elements.
#include "device/cpu/cpu_op.hpp"

namespace muster::device::cpu {
namespace {

class PositionalEmbedding : public CpuOp {
 public:
  PositionalEmbedding(const OpRequest& request, const PositionalEmbeddingSpec& spec)
      : CpuOp(request), spec_(spec), elements_(samples_[0].elements()), width_(samples_[0][1]) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }

  void forward(int, const RunContext& context) override {
    MUSTER_CHECK(context.position * width_ + elements_ <= spec_.length * width_, "position {}", context.position);
    const float* weight = buffers_.params[0] + context.position * width_;
    parallel_items(threads_, rows_, rows_ * elements_, [&](std::int64_t n) {
      const float* from = x() + n * elements_;
      float* to = y() + n * elements_;
#pragma omp simd
      for (std::int64_t i = 0; i < elements_; ++i) to[i] = from[i] + weight[i];
    });
  }

  void backward(int, const RunContext&) override {
    float* grad = buffers_.param_grads[0];
    std::fill(grad + elements_, grad + spec_.length * width_, 0.0f);
    parallel_ranges(threads_, elements_, [&](std::int64_t begin, std::int64_t end) {
      std::copy(dy() + begin, dy() + end, grad + begin);
      for (std::int64_t n = 1; n < rows_; ++n) {
        const float* from = dy() + n * elements_;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) grad[i] += from[i];
      }
    });
    if (wants_grad() && dx() != dy()) std::copy_n(dy(), rows_ * elements_, dx());
  }

 private:
  PositionalEmbeddingSpec spec_;
  std::int64_t elements_, width_;
};

}  // namespace

std::unique_ptr<Op> make_positional_embedding(const OpRequest& request, const PositionalEmbeddingSpec& spec) {
  return std::make_unique<PositionalEmbedding>(request, spec);
}

}  // namespace muster::device::cpu
