// Adds a trained vector per position; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class PositionalEmbedding : public RefOp {
 public:
  PositionalEmbedding(const OpRequest& request, const PositionalEmbeddingSpec& spec)
      : RefOp(request), spec_(spec), elements_(sample_of(request.inputs[0].shape).elements()) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }

  void forward(int, const RunContext& context) override {
    MUSTER_CHECK(context.position * last_extent() + elements_ <= spec_.length * last_extent(), "position {}",
                 context.position);
    const float* weight = buffers_.params[0] + context.position * last_extent();
    for (std::int64_t i = 0; i < rows_ * elements_; ++i) y()[i] = x()[i] + weight[i % elements_];
  }

  void backward(int, const RunContext&) override {
    std::fill_n(buffers_.param_grads[0], spec_.length * last_extent(), 0.0f);
    for (std::int64_t i = 0; i < elements_; ++i) {
      double sum = 0;
      for (std::int64_t n = 0; n < rows_; ++n) sum += static_cast<double>(dy()[n * elements_ + i]);
      buffers_.param_grads[0][i] = static_cast<float>(sum);
    }
    if (wants_grad() && dx() != dy()) std::copy_n(dy(), rows_ * elements_, dx());
  }

 private:
  PositionalEmbeddingSpec spec_;
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Op> make_positional_embedding(const OpRequest& request, const PositionalEmbeddingSpec& spec) {
  return std::make_unique<PositionalEmbedding>(request, spec);
}

}  // namespace muster::device::ref
