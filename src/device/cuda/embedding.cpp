// Token vectors. Ids that no vocabulary has are noted by the kernel and told by the next wait for the device.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Embedding : public CudaOp {
 public:
  Embedding(Context& context, const OpRequest& request, const EmbeddingSpec& spec)
      : CudaOp(context, request), spec_(spec), tokens_(request.inputs[0].shape.elements()) {
    traits_.backward_reads_input[0] = true;
    bad_id_ = context.watch_token_ids();
  }
  void forward(int, const RunContext&) override {
    CUDA_CHECK(embed(x(), buffers_.params[0], y(), bad_id_, spec_.vocabulary, tokens_, spec_.width, stream()));
  }
  void backward(int, const RunContext&) override {
    CUDA_CHECK(embed_gradient(x(), dy(), buffers_.param_grads[0], spec_.vocabulary, tokens_, spec_.width, stream()));
    if (dx()) CUDA_CHECK(cudaMemsetAsync(dx(), 0, static_cast<std::size_t>(tokens_) * sizeof(float), stream()));
  }

 private:
  EmbeddingSpec spec_;
  std::int64_t tokens_;
  float* bad_id_ = nullptr;  // the context's
};

}  // namespace

std::unique_ptr<Op> make_embedding(Context& context, const OpRequest& request, const EmbeddingSpec& spec) {
  return std::make_unique<Embedding>(context, request, spec);
}

}  // namespace muster::device::cuda
