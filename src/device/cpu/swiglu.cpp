// silu(gate) times value over plain tensors.
#include "device/cpu/cpu_op.hpp"
#include "device/cpu/vector_math.hpp"

namespace muster::device::cpu {
namespace {

class Swiglu : public CpuOp {
 public:
  Swiglu(const OpRequest& request, const SwigluSpec&)
      : CpuOp(request), k_(output_shape_[output_shape_.rank() - 1]), positions_(output_shape_.elements() / k_) {
    MUSTER_CHECK(request.inputs[0].is_plain(), "swiglu works on plain tensors");
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    parallel_items(threads_, positions_, positions_ * k_, [&](std::int64_t at) {
      const float *gates = x() + 2 * at * k_, *values = gates + k_;
      float* out = y() + at * k_;
#pragma omp simd
      for (std::int64_t c = 0; c < k_; ++c) out[c] = gates[c] * vector_sigmoid(gates[c]) * values[c];
    });
  }

  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    parallel_items(threads_, positions_, positions_ * k_, [&](std::int64_t at) {
      const float *gates = x() + 2 * at * k_, *values = gates + k_, *grad = dy() + at * k_;
      float *gate_grads = dx() + 2 * at * k_, *value_grads = gate_grads + k_;
#pragma omp simd
      for (std::int64_t c = 0; c < k_; ++c) {
        const float s = vector_sigmoid(gates[c]);
        gate_grads[c] = grad[c] * values[c] * s * (1.0f + gates[c] * (1.0f - s));
        value_grads[c] = grad[c] * gates[c] * s;
      }
    });
  }

 private:
  std::int64_t k_, positions_;
};

}  // namespace

std::unique_ptr<Op> make_swiglu(const OpRequest& request, const SwigluSpec& spec) {
  return std::make_unique<Swiglu>(request, spec);
}

}  // namespace muster::device::cpu
