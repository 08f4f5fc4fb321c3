// The sum of branches, with an activation; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Add : public RefOp {
 public:
  Add(const OpRequest& request, const AddSpec& spec) : RefOp(request), spec_(spec) {
    traits_.backward_reads_output = spec_.activation != Activation::none;
    traits_.passes_grad_through = spec_.activation == Activation::none;
  }
  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < output_elements(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < request_.inputs.size(); ++k) sum += static_cast<double>(x(k)[i]);
      y()[i] = static_cast<float>(activate(spec_.activation, sum));
    }
  }
  void backward(int, const RunContext&) override {
    for (std::size_t k = 0; k < request_.inputs.size(); ++k)
      if (wants_grad(k))
        for (std::int64_t i = 0; i < output_elements(); ++i)
          dx(k)[i] = static_cast<float>(behind_activation(spec_.activation, i));
  }

 private:
  AddSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_add(const OpRequest& request, const AddSpec& spec) {
  return std::make_unique<Add>(request, spec);
}

}  // namespace muster::device::ref
