// silu(gate) times value (Shazeer 2020); the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Swiglu : public RefOp {
 public:
  Swiglu(const OpRequest& request, const SwigluSpec&) : RefOp(request), k_(last_extent() / 2) {
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < output_elements(); ++i) {
      const double gate = gate_of(i);
      y()[i] = static_cast<float>(gate / (1.0 + std::exp(-gate)) * static_cast<double>(x()[at(i) + k_]));
    }
  }

  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    for (std::int64_t i = 0; i < output_elements(); ++i) {
      const double gate = gate_of(i), s = 1.0 / (1.0 + std::exp(-gate)), g = static_cast<double>(dy()[i]);
      dx()[at(i)] = static_cast<float>(g * static_cast<double>(x()[at(i) + k_]) * s * (1.0 + gate * (1.0 - s)));
      dx()[at(i) + k_] = static_cast<float>(g * gate * s);
    }
  }

 private:
  std::int64_t at(std::int64_t i) const { return i / k_ * 2 * k_ + i % k_; }
  double gate_of(std::int64_t i) const { return static_cast<double>(x()[at(i)]); }
  std::int64_t k_;
};

}  // namespace

std::unique_ptr<Op> make_swiglu(const OpRequest& request, const SwigluSpec& spec) {
  return std::make_unique<Swiglu>(request, spec);
}

}  // namespace muster::device::ref
