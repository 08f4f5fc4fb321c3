// Root-mean-square normalisation of each position; 1 / rms is kept for backward.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class RmsNorm : public CudaOp {
 public:
  RmsNorm(Context& context, const OpRequest& request, const RmsNormSpec& spec)
      : CudaOp(context, request), spec_(spec), columns_(last_extent()), count_(elements() / columns_) {
    traits_.backward_reads_input[0] = true;
    traits_.saved_bytes = static_cast<std::size_t>(count_) * sizeof(float);
  }
  void forward(int, const RunContext&) override {
    CUDA_CHECK(cuda::rms_norm(x(), buffers_.params[0], y(), inverses(), spec_.epsilon, count_, columns_, stream()));
  }
  void backward(int, const RunContext&) override {
    CUDA_CHECK(rms_norm_gradient(x(), buffers_.params[0], inverses(), dy(), dx(), buffers_.param_grads[0], count_,
                                 columns_, stream()));
  }

 private:
  float* inverses() const { return static_cast<float*>(buffers_.saved); }
  RmsNormSpec spec_;
  std::int64_t columns_, count_;
};

}  // namespace

std::unique_ptr<Op> make_rms_norm(Context& context, const OpRequest& request, const RmsNormSpec& spec) {
  return std::make_unique<RmsNorm>(context, request, spec);
}

}  // namespace muster::device::cuda
