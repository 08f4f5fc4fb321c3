// Largest or mean value of windows; padding never counts. The truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Pool2d : public RefOp {
 public:
  Pool2d(const OpRequest& request, Pool2dSpec spec) : RefOp(request), spec_(spec) {
    const Shape& in = request.inputs[0].shape;
    c_ = in[1], h_ = in[2], w_ = in[3], oh_ = 1, ow_ = 1;
    if (spec_.is_global) spec_.kernel = spec_.stride = {h_, w_}, spec_.padding = {0, 0, 0, 0};
    else oh_ = output_.shape[2], ow_ = output_.shape[3];
    traits_.backward_reads_input[0] = spec_.kind == Pool2dSpec::Kind::max;
  }

  void forward(int, const RunContext&) override {
    each_window([&](std::int64_t out, const std::vector<std::int64_t>& taps) {
      if (spec_.kind == Pool2dSpec::Kind::max) {
        y()[out] = x()[largest(taps)];
        return;
      }
      double sum = 0;
      for (std::int64_t tap : taps) sum += static_cast<double>(x()[tap]);
      y()[out] = static_cast<float>(sum / static_cast<double>(taps.size()));
    });
  }

  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    std::vector<double> grad(static_cast<std::size_t>(input_elements()), 0.0);
    each_window([&](std::int64_t out, const std::vector<std::int64_t>& taps) {
      const double g = static_cast<double>(dy()[out]);
      if (spec_.kind == Pool2dSpec::Kind::max) {
        grad[static_cast<std::size_t>(largest(taps))] += g;
        return;
      }
      for (std::int64_t tap : taps) grad[static_cast<std::size_t>(tap)] += g / static_cast<double>(taps.size());
    });
    std::copy(grad.begin(), grad.end(), dx());
  }

 private:
  std::int64_t largest(const std::vector<std::int64_t>& taps) const {
    std::int64_t best = taps[0];
    for (std::int64_t tap : taps)  // NaN wins: divergence must show
      if (x()[tap] > x()[best] || (std::isnan(x()[tap]) && !std::isnan(x()[best]))) best = tap;
    return best;
  }

  /// visit(output index, indices of the image's elements under the window, row-major)
  template <class Visit>
  void each_window(Visit visit) const {
    std::vector<std::int64_t> taps;
    for (std::int64_t image = 0; image < rows_ * c_; ++image)
      for (std::int64_t i = 0; i < oh_; ++i)
        for (std::int64_t j = 0; j < ow_; ++j) {
          taps.clear();
          for (std::int64_t a = 0; a < spec_.kernel[0]; ++a)
            for (std::int64_t b = 0; b < spec_.kernel[1]; ++b) {
              const std::int64_t row = i * spec_.stride[0] - spec_.padding[0] + a;
              const std::int64_t col = j * spec_.stride[1] - spec_.padding[1] + b;
              if (row >= 0 && row < h_ && col >= 0 && col < w_) taps.push_back((image * h_ + row) * w_ + col);
            }
          visit((image * oh_ + i) * ow_ + j, taps);
        }
  }

  Pool2dSpec spec_;
  std::int64_t c_ = 0, h_ = 0, w_ = 0, oh_ = 0, ow_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_pool2d(const OpRequest& request, const Pool2dSpec& spec) {
  return std::make_unique<Pool2d>(request, spec);
}

}  // namespace muster::device::ref
