// Sums of several inputs, two at a time, in order; relu behind the last.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Add : public CudaOp {
 public:
  Add(Context& context, const OpRequest& request, const AddSpec& spec) : CudaOp(context, request), spec_(spec) {
    traits_.backward_reads_output = has_relu();
    traits_.passes_grad_through = !has_relu();
  }
  void forward(int, const RunContext&) override {
    const std::size_t inputs = request_.inputs.size();
    if (inputs == 1) pass(x(), y());
    if (inputs == 1 && has_relu()) CUDA_CHECK(apply_curve(Curve::relu, 0, y(), y(), elements(), stream()));
    for (std::size_t k = 1; k < inputs; ++k)
      CUDA_CHECK(add(k == 1 ? x(0) : y(), x(k), y(), has_relu() && k + 1 == inputs, elements(), stream()));
  }
  void backward(int, const RunContext&) override {
    for (std::size_t k = 0; k < request_.inputs.size(); ++k) {
      if (!dx(k)) continue;
      if (has_relu()) CUDA_CHECK(mask_by_relu(y(), dy(), dx(k), elements(), stream()));
      else pass(dy(), dx(k));
    }
  }

 private:
  bool has_relu() const { return spec_.activation == Activation::relu; }
  AddSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_add(Context& context, const OpRequest& request, const AddSpec& spec) {
  return std::make_unique<Add>(context, request, spec);
}

}  // namespace muster::device::cuda
