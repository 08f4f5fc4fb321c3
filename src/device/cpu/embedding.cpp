// Token ids to rows of a table. In the backward pass each thread owns a range of ids and reads all tokens, so every sum
// runs in token order.
#include "device/cpu/cpu_op.hpp"

#include <muster/base/error.hpp>

namespace muster::device::cpu {
namespace {

class Embedding : public CpuOp {
 public:
  Embedding(const OpRequest& request, const EmbeddingSpec& spec)
      : CpuOp(request), spec_(spec), tokens_(request.inputs[0].shape.elements()) {
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < tokens_; ++i)
      if (!(x()[i] >= 0 && x()[i] < static_cast<float>(spec_.vocabulary)))
        fail(ExitCode::data, "embedding: token id {} at position {} is outside the vocabulary of {}", x()[i], i,
             spec_.vocabulary);
    parallel_items(threads_, tokens_, tokens_ * spec_.width, [&](std::int64_t i) {
      std::copy_n(buffers_.params[0] + token(i) * spec_.width, spec_.width, y() + i * spec_.width);
    });
  }

  void backward(int, const RunContext&) override {
    float* grad = buffers_.param_grads[0];
    const std::int64_t width = spec_.width;
#pragma omp parallel for num_threads(threads_) schedule(static, 1) if (threads_ > 1)
    for (int t = 0; t < threads_; ++t) {
      const std::int64_t begin = spec_.vocabulary * t / threads_, end = spec_.vocabulary * (t + 1) / threads_;
      std::fill(grad + begin * width, grad + end * width, 0.0f);
      for (std::int64_t i = 0; i < tokens_; ++i) {
        const std::int64_t id = token(i);
        if (id < begin || id >= end) continue;
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) grad[id * width + c] += dy()[i * width + c];
      }
    }
    if (wants_grad()) std::fill_n(dx(), tokens_, 0.0f);
  }

 private:
  std::int64_t token(std::int64_t i) const { return static_cast<std::int64_t>(x()[i]); }
  EmbeddingSpec spec_;
  std::int64_t tokens_;
};

}  // namespace

std::unique_ptr<Op> make_embedding(const OpRequest& request, const EmbeddingSpec& spec) {
  return std::make_unique<Embedding>(request, spec);
}

}  // namespace muster::device::cpu
