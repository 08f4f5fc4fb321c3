// Sum of tensors in the layout of the first; the others are brought into it where they differ.
#include "device/cpu/adapter.hpp"

namespace muster::device::cpu {
namespace {

class Add : public CpuOp {
 public:
  Add(const OpRequest& request, const AddSpec& spec) : CpuOp(request), spec_(spec), adapters_(request.inputs.size()) {
    output_ = request.inputs[0];
    Pieces in_scratch;
    bool is_uniform = true;
    std::size_t scratchpad = 0;
    for (std::size_t k = 0; k < adapters_.size(); ++k) {
      adapters_[k] = LayoutAdapter(request.inputs[k], output_);
      is_uniform = is_uniform && !adapters_[k].is_needed();
      scratchpad = std::max(scratchpad, adapters_[k].scratchpad_bytes());
      value_at_.push_back(in_scratch.add(adapters_[k].value_bytes()));
    }
    scratchpad_at_ = in_scratch.add(scratchpad);
    traits_.scratch_bytes = in_scratch.bytes();
    traits_.backward_reads_output = traits_.may_overwrite_output_grad = spec_.activation != Activation::none;
    for (const LayoutAdapter& adapter : adapters_) traits_.leaves_grad_of_input.push_back(!adapter.is_needed());
    traits_.passes_grad_through = spec_.activation == Activation::none && is_uniform;
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
    for (std::size_t k = 1; k < values_.size(); ++k) {
      const float *a = k == 1 ? values_[0] : y(), *b = values_[k];
      const bool is_relu = spec_.activation == Activation::relu && k + 1 == values_.size();
      parallel_ranges(threads_, padded_output(), [=, out = y()](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) out[i] = is_relu ? std::max(a[i] + b[i], 0.0f) : a[i] + b[i];
      });
    }
    if (values_.size() == 1)
      parallel_ranges(threads_, padded_output(),
                      [a = values_[0], out = y(), is_relu = spec_.activation == Activation::relu](std::int64_t begin,
                                                                                                  std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) out[i] = is_relu ? std::max(a[i], 0.0f) : a[i];
                      });
  }

  void backward(int, const RunContext&) override {
    if (spec_.activation == Activation::relu) mask_by_relu(threads_, y(), own_dy(), padded_output());
    for (std::size_t k = 0; k < grads_.size(); ++k) {
      if (!grads_[k]) continue;
      parallel_ranges(threads_, padded_output(), [from = dy(), to = grads_[k]](std::int64_t begin, std::int64_t end) {
        std::copy(from + begin, from + end, to + begin);
      });
      adapters_[k].run_grad();
    }
  }

 private:
  AddSpec spec_;
  std::vector<LayoutAdapter> adapters_;
  std::vector<std::size_t> value_at_;
  std::size_t scratchpad_at_ = 0;
  std::vector<const float*> values_;
  std::vector<float*> grads_;
};

}  // namespace

std::unique_ptr<Op> make_add(const OpRequest& request, const AddSpec& spec) {
  return std::make_unique<Add>(request, spec);
}

}  // namespace muster::device::cpu
