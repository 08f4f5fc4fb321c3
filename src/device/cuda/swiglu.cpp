// silu of one half times the other half.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Swiglu : public CudaOp {
 public:
  Swiglu(Context& context, const OpRequest& request, const SwigluSpec&)
      : CudaOp(context, request), k_(last_extent() / 2) {
    traits_.backward_reads_input[0] = true;
  }
  void forward(int, const RunContext&) override { CUDA_CHECK(cuda::swiglu(x(), y(), k_, elements(), stream())); }
  void backward(int, const RunContext&) override {
    if (dx()) CUDA_CHECK(swiglu_gradient(x(), dy(), dx(), k_, elements(), stream()));
  }

 private:
  std::int64_t k_;
};

}  // namespace

std::unique_ptr<Op> make_swiglu(Context& context, const OpRequest& request, const SwigluSpec& spec) {
  return std::make_unique<Swiglu>(context, request, spec);
}

}  // namespace muster::device::cuda
