// What conv2d and dense have in common on oneDNN: three primitives (forward, gradient of the data, gradient of the
// weights), each with the formats it likes best, and the changes of format between them. The parameter is kept in the
// format in which the weight gradient comes out, so neither the gradient nor the update ever needs a reorder; the forms
// that the forward and data passes want are made from it inside the op, once per pass and only where they differ.
#pragma once

#include "device/cpu/cpu_op.hpp"

namespace muster::device::cpu {

/// The primitives of one op; Traits gives their types.
struct WeightedPrimitives {
  BoundPrimitive forward, backward_data, backward_weights;
  memory::desc source;  ///< what forward reads
  memory::desc forward_weights;
  memory::desc data_weights;  ///< what backward_data reads
  memory::desc weight_grad;   ///< what backward_weights writes
  memory::desc data_grad;     ///< what backward_data writes
  memory::desc output;
  /// What backward_weights reads; source and output wherever a kernel of the library takes them.
  memory::desc weights_source, weights_output_grad;
  memory::desc data_output_grad;  ///< what backward_data reads
  std::string implementation;
};

class WeightedOp : public CpuOp {
 public:
  WeightedOp(const OpRequest& request, bool has_bias, Activation activation);
  std::string implementation() const override { return primitives_.implementation; }
  void bind(const OpBuffers& buffers) override;
  void forward(int phase, const RunContext& context) override;
  void backward(int phase, const RunContext& context) override;

 protected:
  /// Called by the constructor of the derived class once primitives_ is filled. weight_dims: as the primitives see the
  /// weight.
  void complete(const memory::dims& weight_dims, const memory::dims& input_dims);

  bool has_bias_;
  Activation activation_;
  WeightedPrimitives primitives_;

 private:
  const void* through(Reorder& reorder, const void* from, std::size_t scratch_at, void* scratchpad);

  Reorder source_, forward_weights_, data_weights_, weight_grad_, data_grad_;
  Reorder weights_source_, weights_output_grad_, data_output_grad_;
  std::size_t source_at_ = 0;  // in saved (training) or scratch
  std::size_t forward_weights_at_ = 0, data_weights_at_ = 0, weight_grad_at_ = 0, data_grad_at_ = 0, scratchpad_at_ = 0;
  std::size_t weights_source_at_ = 0, weights_output_grad_at_ = 0, data_output_grad_at_ = 0;
  memory::desc param_desc_, bias_desc_;
};

}  // namespace muster::device::cpu
