// Layer normalisation over a whole sample or each position; the moments are kept for backward.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class LayerNorm : public CudaOp {
 public:
  LayerNorm(Context& context, const OpRequest& request, const LayerNormSpec& spec)
      : CudaOp(context, request), spec_(spec) {
    columns_ = spec_.is_per_position ? last_extent() : elements() / rows_;
    count_ = elements() / columns_;
    traits_.backward_reads_input[0] = true;
    traits_.saved_bytes = static_cast<std::size_t>(2 * count_) * sizeof(float);  // mean and 1 / sigma of every row
  }
  void forward(int, const RunContext&) override {
    CUDA_CHECK(layer_norm(x(), buffers_.params[0], buffers_.params[1], y(), moments(), spec_.epsilon, count_, columns_,
                          stream()));
  }
  void backward(int, const RunContext&) override {
    CUDA_CHECK(layer_norm_gradient(x(), buffers_.params[0], moments(), dy(), dx(), buffers_.param_grads[0],
                                   buffers_.param_grads[1], count_, columns_, stream()));
  }

 private:
  float* moments() const { return static_cast<float*>(buffers_.saved); }
  LayerNormSpec spec_;
  std::int64_t columns_ = 0, count_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(Context& context, const OpRequest& request, const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(context, request, spec);
}

}  // namespace muster::device::cuda
