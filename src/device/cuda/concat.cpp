// Joins inputs along the channels: the samples' shares lie side by side.
#include "device/cuda/cuda_op.hpp"

namespace muster::device::cuda {
namespace {

class Concat : public CudaOp {
 public:
  Concat(Context& context, const OpRequest& request, const ConcatSpec&) : CudaOp(context, request) {}
  void forward(int, const RunContext&) override {
    each_input([&](std::size_t k, Columns of_input, Columns of_output) {
      CUDA_CHECK(copy_columns(x(k), of_input, y(), of_output, rows_, of_input.stride, stream()));
    });
  }
  void backward(int, const RunContext&) override {
    each_input([&](std::size_t k, Columns of_input, Columns of_output) {
      if (dx(k)) CUDA_CHECK(copy_columns(dy(), of_output, dx(k), of_input, rows_, of_input.stride, stream()));
    });
  }

 private:
  /// A sample is a row: the inputs lie side by side in it.
  template <class Visit>
  void each_input(const Visit& visit) const {
    const std::int64_t whole = elements() / rows_;
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < request_.inputs.size(); ++k) {
      const std::int64_t width = request_.inputs[k].shape.elements() / rows_;
      visit(k, Columns{0, width}, Columns{offset, whole});
      offset += width;
    }
  }
};

}  // namespace

std::unique_ptr<Op> make_concat(Context& context, const OpRequest& request, const ConcatSpec& spec) {
  return std::make_unique<Concat>(context, request, spec);
}

}  // namespace muster::device::cuda
