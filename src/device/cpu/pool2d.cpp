// Pooling by oneDNN in the layout in which the input comes, but for what max_pool2d.cpp does itself. The result of
// global pooling is brought into plain order, which is what dense layers read.
#include "device/cpu/cpu_op.hpp"
#include "device/cpu/image.hpp"

namespace muster::device::cpu {
namespace {

class Pool2d : public CpuOp {
 public:
  Pool2d(const OpRequest& request, const Pool2dSpec& spec) : CpuOp(request) {
    const Shape& in = request.inputs[0].shape;
    input_ = desc_of(request.inputs[0]);
    memory::dims out{in[0], in[1], 1, 1};
    Window window{{in[2], in[3]}, {in[2], in[3]}, {0, 0}, {0, 0}, {0, 0}};
    if (!spec.is_global) {
      out = dims_of(output_shape_);
      window = {{spec.kernel[0], spec.kernel[1]},
                {spec.stride[0], spec.stride[1]},
                {0, 0},
                {spec.padding[0], spec.padding[1]},
                {spec.padding[2], spec.padding[3]}};
      // oneDNN refuses windows that reach further than the padded image on the far side; what no window uses is cut
      // off.
      for (std::size_t axis = 0; axis < 2; ++axis)
        window.padding_after[axis] = (out[axis + 2] - 1) * window.stride[axis] + window.kernel[axis] - in[axis + 2] -
                                     window.padding_before[axis];
    }
    translated("pooling", [&] { make(spec, out, window); });
  }

  std::string implementation() const override { return implementation_; }

  void bind(const OpBuffers& buffers) override {
    CpuOp::bind(buffers);
    void* scratchpad = scratch(scratchpad_at_);
    float* output = plain_output_.is_needed() ? reinterpret_cast<float*>(scratch(pooled_at_)) : y();
    forward_.bind(DNNL_ARG_SRC, input_, buffers.inputs[0]);
    forward_.bind(DNNL_ARG_DST, pooled_, output);
    if (has_workspace_)
      forward_.bind(DNNL_ARG_WORKSPACE, workspace_, request_.is_training ? saved() : scratch(workspace_at_));
    forward_.bind_scratch(scratchpad);
    plain_output_.bind(output, buffers.output, scratchpad);
    if (!backward_ || !wants_grad()) return;
    const void* grad = blocked_grad_.is_needed() ? static_cast<const void*>(scratch(pooled_at_)) : buffers.output_grad;
    blocked_grad_.bind(buffers.output_grad, scratch(pooled_at_), scratchpad);
    backward_.bind(DNNL_ARG_DIFF_DST, pooled_, grad);
    backward_.bind(DNNL_ARG_DIFF_SRC, input_, buffers.input_grads[0]);
    if (has_workspace_) backward_.bind(DNNL_ARG_WORKSPACE, workspace_, saved());
    backward_.bind_scratch(scratchpad);
  }

  void forward(int, const RunContext&) override {
    forward_.run();
    plain_output_.run();
  }
  void backward(int, const RunContext&) override {
    if (!wants_grad()) return;
    blocked_grad_.run();
    backward_.run();
  }

 private:
  void make(const Pool2dSpec& spec, const memory::dims& out, const Window& window) {
    const bool is_max = spec.kind == Pool2dSpec::Kind::max;
    const auto kernel = is_max ? algorithm::pooling_max : average_without_padding();
    const auto kind = request_.is_training ? prop_kind::forward_training : prop_kind::forward_inference;
    const auto forward = pooling_forward(engine(), user_scratchpad(), kind, kernel, input_, any_desc(out), window);
    forward_ = BoundPrimitive(dnnl::pooling_forward(forward), forward);
    pooled_ = forward.dst_desc();
    implementation_ = forward.impl_info_str();
    if (spec.is_global)
      plain_output_ = Reorder(pooled_, plain_desc(out)), blocked_grad_ = Reorder(plain_desc(out), pooled_);
    else output_ = tensor_of(output_shape_, pooled_, out);
    has_workspace_ = is_max && request_.is_training;
    if (has_workspace_) workspace_ = forward.workspace_desc();

    Pieces in_scratch;
    pooled_at_ = in_scratch.add(plain_output_.is_needed() ? pooled_.get_size() : 0);
    std::size_t scratchpad = std::max(forward_.scratch_bytes(), plain_output_.scratch_bytes());
    if (has_workspace_) traits_.saved_bytes = workspace_.get_size();
    if (may_want_grad()) {
      const auto backward = pooling_backward(engine(), user_scratchpad(), kernel, input_, pooled_, window, forward);
      backward_ = BoundPrimitive(dnnl::pooling_backward(backward), backward);
      scratchpad = std::max({scratchpad, backward_.scratch_bytes(), blocked_grad_.scratch_bytes()});
    }
    scratchpad_at_ = in_scratch.add(scratchpad);
    traits_.scratch_bytes = in_scratch.bytes();
  }

  memory::desc input_, pooled_, workspace_;
  BoundPrimitive forward_, backward_;
  Reorder plain_output_, blocked_grad_;
  std::string implementation_;
  bool has_workspace_ = false;
  std::size_t pooled_at_ = 0, scratchpad_at_ = 0, workspace_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_pool2d(const OpRequest& request, const Pool2dSpec& spec) {
  if (auto own = make_max_pool2d(request, spec)) return own;
  return std::make_unique<Pool2d>(request, spec);
}

}  // namespace muster::device::cpu
