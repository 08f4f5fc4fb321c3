// Activations, elementwise in whatever layout the input has (padding stays zero where f(0) = 0; sigmoid's padding does
// not, so it works on plain tensors).
#include "device/cpu/adapter.hpp"
#include "device/cpu/vector_math.hpp"

#include <cmath>
#include <numbers>

namespace muster::device::cpu {
namespace {

inline float sigmoid(float x) { return vector_sigmoid(x); }

struct Relu {
  float value(float x) const { return x > 0.0f ? x : 0.0f; }
  float slope(float x) const { return x > 0.0f ? 1.0f : 0.0f; }
};
struct LeakyRelu {
  float negative;
  float value(float x) const { return x > 0.0f ? x : negative * x; }
  float slope(float x) const { return x > 0.0f ? 1.0f : negative; }
};
struct Silu {
  float value(float x) const { return x * sigmoid(x); }
  float slope(float x) const {
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
  }
};
struct Tanh {
  float value(float x) const { return std::tanh(x); }
  float slope(float x) const {
    const float t = std::tanh(x);
    return 1.0f - t * t;
  }
};
struct Sigmoid {
  float value(float x) const { return sigmoid(x); }
  float slope(float x) const {
    const float s = sigmoid(x);
    return s * (1.0f - s);
  }
};
struct Gelu {
  float value(float x) const { return 0.5f * x * (1.0f + std::erf(x * static_cast<float>(1.0 / std::numbers::sqrt2))); }
  float slope(float x) const {
    const float cdf = 0.5f * (1.0f + std::erf(x * static_cast<float>(1.0 / std::numbers::sqrt2)));
    return cdf + x * std::exp(-0.5f * x * x) * 0.398942280f;  // 1 / sqrt(2 pi)
  }
};
struct GeluTanh {
  static constexpr float k = 0.797884561f, cubic = 0.044715f;  // sqrt(2 / pi)
  float value(float x) const { return 0.5f * x * (1.0f + vector_tanh(k * (x + cubic * x * x * x))); }
  float slope(float x) const {
    const float t = vector_tanh(k * (x + cubic * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * k * (1.0f + 3.0f * cubic * x * x);
  }
};

template <class Function>
class ActivationOp : public CpuOp {
 public:
  ActivationOp(const OpRequest& request, Function function, bool needs_plain) : CpuOp(request), function_(function) {
    const TensorDesc plain{request.inputs[0].shape, DType::f32, nullptr};
    output_ = needs_plain ? plain : request.inputs[0];
    adapter_ = LayoutAdapter(request.inputs[0], output_);
    Pieces in_saved, in_scratch;
    value_at_ = (request.is_training ? in_saved : in_scratch).add(adapter_.value_bytes());
    grad_at_ = in_scratch.add(adapter_.grad_bytes());
    scratchpad_at_ = in_scratch.add(adapter_.scratchpad_bytes());
    traits_.saved_bytes = in_saved.bytes();
    traits_.scratch_bytes = in_scratch.bytes();
    traits_.backward_reads_input[0] = !adapter_.is_needed();
    traits_.may_write_grad_over_grad = !adapter_.is_needed();
  }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    x_ = x();
    dx_ = wants_grad() ? dx() : nullptr;
    if (!adapter_.is_needed()) return;
    x_ = reinterpret_cast<float*>(request_.is_training ? saved(value_at_) : scratch(value_at_));
    adapter_.bind_value(x(), const_cast<float*>(x_), scratch(scratchpad_at_));
    if (!dx_) return;
    dx_ = reinterpret_cast<float*>(scratch(grad_at_));
    adapter_.bind_grad(dx_, dx(), scratch(scratchpad_at_));
  }

  void forward(int, const RunContext&) override {
    adapter_.run_value();
    parallel_ranges(threads_, padded_output(),
                    [f = function_, in = x_, out = y()](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                      for (std::int64_t i = begin; i < end; ++i) out[i] = f.value(in[i]);
                    });
  }

  void backward(int, const RunContext&) override {
    if (!dx_) return;
    parallel_ranges(threads_, padded_output(),
                    [f = function_, in = x_, grad = dy(), to = dx_](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                      for (std::int64_t i = begin; i < end; ++i) to[i] = grad[i] * f.slope(in[i]);
                    });
    adapter_.run_grad();
  }

 private:
  Function function_;
  LayoutAdapter adapter_;
  std::size_t value_at_ = 0, grad_at_ = 0, scratchpad_at_ = 0;
  const float* x_ = nullptr;
  float* dx_ = nullptr;
};

template <class Function>
std::unique_ptr<Op> make(const OpRequest& request, Function function, bool needs_plain = false) {
  return std::make_unique<ActivationOp<Function>>(request, function, needs_plain);
}

}  // namespace

std::unique_ptr<Op> make_activation(const OpRequest& request, const ActivationSpec& spec) {
  switch (spec.kind) {
    case Activation::none:
      return make(request, LeakyRelu{1.0f});
    case Activation::relu:
      return make(request, Relu{});
    case Activation::leaky_relu:
      return make(request, LeakyRelu{spec.slope});
    case Activation::silu:
      return make(request, Silu{});
    case Activation::tanh:
      return make(request, Tanh{});
    case Activation::sigmoid:
      return make(request, Sigmoid{}, true);
    case Activation::gelu:
      break;
  }
  return spec.is_gelu_tanh ? make(request, GeluTanh{}) : make(request, Gelu{});
}

}  // namespace muster::device::cpu
