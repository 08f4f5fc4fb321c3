// Pooling by kernels of our own, which average without the padding and give ties of a maximum to the first.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Pool2d : public CudaOp {
 public:
  Pool2d(Context& context, const OpRequest& request, const Pool2dSpec& spec) : CudaOp(context, request) {
    const Shape& in = request.inputs[0].shape;
    shape_ = {in[0] * in[1],
              in[2],
              in[3],
              1,
              1,
              spec.kernel[0],
              spec.kernel[1],
              spec.stride[0],
              spec.stride[1],
              spec.padding[0],
              spec.padding[1],
              spec.kind == Pool2dSpec::Kind::max};
    if (spec.is_global) {
      shape_.kernel_h = shape_.stride_h = shape_.h;
      shape_.kernel_w = shape_.stride_w = shape_.w;
      shape_.top = shape_.left = 0;
    } else {
      shape_.oh = output_.shape[2];
      shape_.ow = output_.shape[3];
    }
    traits_.backward_reads_input[0] = shape_.is_max;
  }
  void forward(int, const RunContext&) override { CUDA_CHECK(pool(x(), y(), shape_, stream())); }
  void backward(int, const RunContext&) override {
    if (dx()) CUDA_CHECK(pool_gradient(x(), dy(), dx(), shape_, stream()));
  }

 private:
  PoolShape shape_{};
};

}  // namespace

std::unique_ptr<Op> make_pool2d(Context& context, const OpRequest& request, const Pool2dSpec& spec) {
  return std::make_unique<Pool2d>(context, request, spec);
}

}  // namespace muster::device::cuda
