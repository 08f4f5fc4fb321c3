// The fully connected layer; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Dense : public RefOp {
 public:
  Dense(const OpRequest& request, const DenseSpec& spec)
      : RefOp(request), spec_(spec), features_(sample_of(request.inputs[0].shape).elements()) {
    if (spec_.is_per_position) {
      features_ = last_extent();
      rows_ = positions();
    }
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = spec_.activation != Activation::none;
  }

  void forward(int, const RunContext&) override {
    const float* weight = buffers_.params[0];
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t u = 0; u < spec_.units; ++u) {
        double sum = spec_.has_bias ? static_cast<double>(buffers_.params[1][u]) : 0.0;
        for (std::int64_t f = 0; f < features_; ++f)
          sum += static_cast<double>(x()[n * features_ + f]) * static_cast<double>(weight[u * features_ + f]);
        y()[n * spec_.units + u] = static_cast<float>(activate(spec_.activation, sum));
      }
  }

  void backward(int, const RunContext&) override {
    const float* weight = buffers_.params[0];
    for (std::int64_t u = 0; u < spec_.units; ++u) {
      for (std::int64_t f = 0; f < features_; ++f) {
        double sum = 0;
        for (std::int64_t n = 0; n < rows_; ++n) sum += grad(n, u) * static_cast<double>(x()[n * features_ + f]);
        buffers_.param_grads[0][u * features_ + f] = static_cast<float>(sum);
      }
      double sum = 0;
      for (std::int64_t n = 0; n < rows_; ++n) sum += grad(n, u);
      if (spec_.has_bias) buffers_.param_grads[1][u] = static_cast<float>(sum);
    }
    if (!wants_grad()) return;
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t f = 0; f < features_; ++f) {
        double sum = 0;
        for (std::int64_t u = 0; u < spec_.units; ++u)
          sum += grad(n, u) * static_cast<double>(weight[u * features_ + f]);
        dx()[n * features_ + f] = static_cast<float>(sum);
      }
  }

 private:
  double grad(std::int64_t n, std::int64_t u) const { return behind_activation(spec_.activation, n * spec_.units + u); }
  DenseSpec spec_;
  std::int64_t features_;
};

}  // namespace

std::unique_ptr<Op> make_dense(const OpRequest& request, const DenseSpec& spec) {
  return std::make_unique<Dense>(request, spec);
}

}  // namespace muster::device::ref
