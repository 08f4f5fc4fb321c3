// Joins channels, in plain order.
#include "device/cpu/adapter.hpp"

namespace muster::device::cpu {
namespace {

class Concat : public CpuOp {
 public:
  Concat(const OpRequest& request, const ConcatSpec&) : CpuOp(request), adapters_(request.inputs.size()) {
    Pieces in_scratch;
    std::size_t scratchpad = 0;
    for (std::size_t k = 0; k < adapters_.size(); ++k) {
      adapters_[k] = LayoutAdapter(request.inputs[k], {request.inputs[k].shape, DType::f32, nullptr});
      scratchpad = std::max(scratchpad, adapters_[k].scratchpad_bytes());
      value_at_.push_back(in_scratch.add(adapters_[k].value_bytes()));
    }
    scratchpad_at_ = in_scratch.add(scratchpad);
    traits_.scratch_bytes = in_scratch.bytes();
  }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    values_.clear();
    grads_.clear();
    for (std::size_t k = 0; k < adapters_.size(); ++k) {
      values_.push_back(x(k));
      grads_.push_back(wants_grad(k) ? dx(k) : nullptr);
      if (!adapters_[k].is_needed()) continue;
      auto* here = reinterpret_cast<float*>(scratch(value_at_[k]));
      adapters_[k].bind_value(x(k), here, scratch(scratchpad_at_));
      values_.back() = here;
      if (!grads_.back()) continue;
      adapters_[k].bind_grad(here, dx(k), scratch(scratchpad_at_));
      grads_.back() = here;
    }
  }

  void forward(int, const RunContext&) override {
    for (const LayoutAdapter& adapter : adapters_) adapter.run_value();
    each_piece([&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t count) {
      std::copy_n(values_[k] + in, count, y() + out);
    });
  }

  void backward(int, const RunContext&) override {
    each_piece([&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t count) {
      if (grads_[k]) std::copy_n(dy() + out, count, grads_[k] + in);
    });
    for (std::size_t k = 0; k < grads_.size(); ++k)
      if (grads_[k]) adapters_[k].run_grad();
  }

 private:
  template <class Visit>
  void each_piece(Visit visit) const {
    const std::int64_t width = rows_ == 0 ? 0 : output_shape_.elements() / rows_;
    parallel_items(threads_, rows_, output_shape_.elements(), [&](std::int64_t n) {
      std::int64_t out = n * width;
      for (std::size_t k = 0; k < samples_.size(); ++k) {
        const std::int64_t count = samples_[k].elements();
        visit(k, n * count, out, count);
        out += count;
      }
    });
  }

  std::vector<LayoutAdapter> adapters_;
  std::vector<std::size_t> value_at_;
  std::size_t scratchpad_at_ = 0;
  std::vector<const float*> values_;
  std::vector<float*> grads_;
};

}  // namespace

std::unique_ptr<Op> make_concat(const OpRequest& request, const ConcatSpec& spec) {
  return std::make_unique<Concat>(request, spec);
}

}  // namespace muster::device::cpu
