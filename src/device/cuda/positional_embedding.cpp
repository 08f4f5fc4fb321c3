// Learnt positions: a vector per position added to every sample.
#include "device/cuda/cuda_op.hpp"

#include <muster/base/check.hpp>

namespace muster::device::cuda {
namespace {

class PositionalEmbedding : public CudaOp {
 public:
  PositionalEmbedding(Context& context, const OpRequest& request, const PositionalEmbeddingSpec& spec)
      : CudaOp(context, request), spec_(spec), sample_(elements() / rows_) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext& run) override {
    const std::int64_t offset = run.position * last_extent();
    MUSTER_CHECK(offset + sample_ <= spec_.length * last_extent(), "position {}", run.position);
    CUDA_CHECK(add_to_rows(x(), buffers_.params[0] + offset, y(), rows_, sample_, stream()));
  }
  void backward(int, const RunContext&) override {
    float* grad = buffers_.param_grads[0];
    const auto bytes = static_cast<std::size_t>(spec_.length * last_extent()) * sizeof(float);
    CUDA_CHECK(cudaMemsetAsync(grad, 0, bytes, stream()));
    CUDA_CHECK(column_sums(dy(), grad, rows_, sample_, stream()));
    if (dx()) pass(dy(), dx());
  }

 private:
  PositionalEmbeddingSpec spec_;
  std::int64_t sample_;  // elements of one
};

}  // namespace

std::unique_ptr<Op> make_positional_embedding(Context& context, const OpRequest& request,
                                              const PositionalEmbeddingSpec& spec) {
  return std::make_unique<PositionalEmbedding>(context, request, spec);
}

}  // namespace muster::device::cuda
