// 2-D convolution as seven plain loops; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Conv2d : public RefOp {
 public:
  Conv2d(const OpRequest& request, const Conv2dSpec& spec) : RefOp(request), spec_(spec) {
    const Shape& in = request.inputs[0].shape;
    c_ = in[1], h_ = in[2], w_ = in[3], oh_ = output_.shape[2], ow_ = output_.shape[3];
    traits_.backward_reads_input[0] = true;
    traits_.backward_reads_output = spec_.activation != Activation::none;
  }

  void forward(int, const RunContext&) override {
    std::int64_t out = 0;
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t f = 0; f < spec_.filters; ++f)
        for (std::int64_t i = 0; i < oh_; ++i)
          for (std::int64_t j = 0; j < ow_; ++j, ++out) {
            double sum = spec_.has_bias ? static_cast<double>(buffers_.params[1][f]) : 0.0;
            each_tap(n, f, i, j, [&](std::int64_t in, std::int64_t tap) {
              sum += static_cast<double>(x()[in]) * static_cast<double>(buffers_.params[0][tap]);
            });
            y()[out] = static_cast<float>(activate(spec_.activation, sum));
          }
  }

  void backward(int, const RunContext&) override {
    std::vector<double> weight_grad(static_cast<std::size_t>(params_[0].shape.elements()), 0.0);
    std::vector<double> bias_grad(static_cast<std::size_t>(spec_.filters), 0.0);
    std::vector<double> input_grad(wants_grad() ? static_cast<std::size_t>(input_elements()) : 0, 0.0);
    std::int64_t out = 0;
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t f = 0; f < spec_.filters; ++f)
        for (std::int64_t i = 0; i < oh_; ++i)
          for (std::int64_t j = 0; j < ow_; ++j, ++out) {
            const double g = behind_activation(spec_.activation, out);
            bias_grad[static_cast<std::size_t>(f)] += g;
            each_tap(n, f, i, j, [&](std::int64_t in, std::int64_t tap) {
              weight_grad[static_cast<std::size_t>(tap)] += g * static_cast<double>(x()[in]);
              if (!input_grad.empty())
                input_grad[static_cast<std::size_t>(in)] += g * static_cast<double>(buffers_.params[0][tap]);
            });
          }
    std::copy(weight_grad.begin(), weight_grad.end(), buffers_.param_grads[0]);
    if (spec_.has_bias) std::copy(bias_grad.begin(), bias_grad.end(), buffers_.param_grads[1]);
    if (wants_grad()) std::copy(input_grad.begin(), input_grad.end(), dx());
  }

 private:
  /// Calls visit(input index, weight index) for every element of the image under the window at output (n, f, i, j).
  template <class Visit>
  void each_tap(std::int64_t n, std::int64_t f, std::int64_t i, std::int64_t j, Visit visit) const {
    const std::int64_t c_per_group = c_ / spec_.groups;
    const std::int64_t first_c = f / (spec_.filters / spec_.groups) * c_per_group;
    for (std::int64_t c = 0; c < c_per_group; ++c)
      for (std::int64_t a = 0; a < spec_.kernel[0]; ++a)
        for (std::int64_t b = 0; b < spec_.kernel[1]; ++b) {
          const std::int64_t row = i * spec_.stride[0] - spec_.padding[0] + a * spec_.dilation[0];
          const std::int64_t col = j * spec_.stride[1] - spec_.padding[1] + b * spec_.dilation[1];
          if (row < 0 || row >= h_ || col < 0 || col >= w_) continue;
          visit(((n * c_ + first_c + c) * h_ + row) * w_ + col,
                ((f * c_per_group + c) * spec_.kernel[0] + a) * spec_.kernel[1] + b);
        }
  }

  Conv2dSpec spec_;
  std::int64_t c_ = 0, h_ = 0, w_ = 0, oh_ = 0, ow_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_conv2d(const OpRequest& request, const Conv2dSpec& spec) {
  return std::make_unique<Conv2d>(request, spec);
}

}  // namespace muster::device::ref
