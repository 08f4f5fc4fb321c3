// The fully connected layer: y = activation(x W^T + b). Bias and relu ride on the product's epilogue, and so does the
// sum of the bias gradient; where cuBLASLt has no algorithm with the epilogue, kernels of our own do that part.
#include "device/cuda/cuda_op.hpp"
#include "device/cuda/matmul.hpp"

namespace muster::device::cuda {
namespace {

using Epilogue = MatmulSpec::Epilogue;

class Dense : public CudaOp {
 public:
  Dense(Context& context, const OpRequest& request, const DenseSpec& spec) : CudaOp(context, request), spec_(spec) {
    features_ = spec_.is_per_position ? last_extent() : request.inputs[0].shape.elements() / rows_;
    count_ = request.inputs[0].shape.elements() / features_;
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = has_relu();
    traits_.may_overwrite_output_grad = has_relu();

    MatmulSpec product{count_, spec_.units, features_, false, true, Epilogue::none};
    if (spec_.has_bias) product.epilogue = has_relu() ? Epilogue::bias_relu : Epilogue::bias;
    forward_ = fused_or_plain(product, is_forward_fused_);
    if (!request.is_training) return;
    MatmulSpec of_weight{spec_.units, features_, count_, true, false, Epilogue::none};
    if (spec_.has_bias) of_weight.epilogue = Epilogue::a_sums;
    of_weight_ = fused_or_plain(of_weight, is_bias_fused_);
    if (may_want_grad())
      of_input_ = Matmul::make(context, {count_, features_, spec_.units, false, false, Epilogue::none});
  }
  std::string implementation() const override {
    return is_forward_fused_ || !spec_.has_bias ? "cublasLt" : "cublasLt+own";
  }

  void forward(int, const RunContext&) override {
    float* bias = spec_.has_bias ? buffers_.params[1] : nullptr;
    forward_->run(x(), buffers_.params[0], y(), is_forward_fused_ ? bias : nullptr);
    if (is_forward_fused_) return;
    if (bias) CUDA_CHECK(add_bias(y(), bias, has_relu(), count_, spec_.units, stream()));
    else if (has_relu()) CUDA_CHECK(apply_curve(Curve::relu, 0, y(), y(), elements(), stream()));
  }

  void backward(int, const RunContext&) override {
    auto* grad = static_cast<float*>(const_cast<void*>(buffers_.output_grad));
    if (has_relu()) CUDA_CHECK(mask_by_relu(y(), grad, grad, elements(), stream()));
    float* bias_grad = spec_.has_bias ? buffers_.param_grads[1] : nullptr;
    of_weight_->run(grad, x(), buffers_.param_grads[0], is_bias_fused_ ? bias_grad : nullptr);
    if (bias_grad && !is_bias_fused_) CUDA_CHECK(column_sums(grad, bias_grad, count_, spec_.units, stream()));
    if (dx()) of_input_->run(grad, buffers_.params[0], dx(), nullptr);
  }

 private:
  bool has_relu() const { return spec_.activation == Activation::relu; }
  std::unique_ptr<Matmul> fused_or_plain(MatmulSpec product, bool& is_fused) {
    is_fused = product.epilogue != Epilogue::none;
    if (is_fused)
      if (auto fused = Matmul::make(context_, product)) return fused;
    is_fused = false;
    product.epilogue = Epilogue::none;
    return Matmul::make(context_, product);
  }

  DenseSpec spec_;
  std::int64_t features_ = 0, count_ = 0;  // count_: rows of the product
  std::unique_ptr<Matmul> forward_, of_weight_, of_input_;
  bool is_forward_fused_ = false, is_bias_fused_ = false;
};

}  // namespace

std::unique_ptr<Op> make_dense(Context& context, const OpRequest& request, const DenseSpec& spec) {
  return std::make_unique<Dense>(context, request, spec);
}

}  // namespace muster::device::cuda
