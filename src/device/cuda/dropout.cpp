// Dropout with the masks of the CPU: key and counter of the same random stream go to the kernel.
#include "device/cuda/cuda_op.hpp"

#include <muster/base/rng.hpp>

namespace muster::device::cuda {
namespace {

class Dropout : public CudaOp {
 public:
  Dropout(Context& context, const OpRequest& request, const DropoutSpec& spec) : CudaOp(context, request), spec_(spec) {
    traits_.may_write_output_over_input = traits_.may_write_grad_over_grad = true;
  }
  void forward(int, const RunContext& run) override { apply(x(), y(), run); }
  void backward(int, const RunContext& run) override {
    if (dx()) apply(dy(), dx(), run);
  }

 private:
  void apply(const float* from, float* to, const RunContext& run) const {
    if (!request_.is_training) {
      pass(from, to);
      return;
    }
    const std::uint64_t major = (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(run.step);
    const RandomStream random(run.seed, Purpose::dropout, major, static_cast<std::uint32_t>(run.first_row));
    const auto [key, counter] = std::pair(random.key(), random.counter());
    CUDA_CHECK(cuda::dropout(from, to, spec_.rate, {{key[0], key[1]}, {counter[0], counter[1]}}, counter[2], rows_,
                             elements() / rows_, stream()));
  }
  DropoutSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_dropout(Context& context, const OpRequest& request, const DropoutSpec& spec) {
  return std::make_unique<Dropout>(context, request, spec);
}

}  // namespace muster::device::cuda
