// A compiled op: made once for a fixed micro-batch size, bound once to memory, run every step. Making it chooses
// kernels and layouts; running it allocates nothing and looks nothing up. Used by one thread.
//
// Phases. Most ops run in one phase. An op whose result needs a sum over the whole global batch (batch norm of global
// scope) runs in two: phase 0 leaves its share in `statistics(direction)`, the caller sums these over all micro-batches
// of all ranks and writes the totals back to the same place, phase 1 reads the totals. Deferred statistics are summed
// in the same way but only once, at the end of the step (running values of group-scope batch norm); end_step reads
// them.
#pragma once

#include <muster/device/layout.hpp>
#include <muster/device/spec.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::device {

enum class Direction : std::uint8_t { forward, backward };

/// What every run of an op may depend on, besides its buffers.
struct RunContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_row = 0;    ///< row of this micro-batch's first sample in the global batch
  std::int64_t global_rows = 0;  ///< samples in the global batch of this step, over all ranks
  std::int64_t position = 0;     ///< of the input's first token in its sequence; above 0 with key/value caches only
};

/// Memory of one op. All pointers stay valid and unchanged until the op dies. Owned by the caller.
struct OpBuffers {
  std::vector<const void*> inputs;    ///< layouts: OpRequest::inputs
  void* output = nullptr;             ///< layout: Op::output()
  const void* output_grad = nullptr;  ///< layout of the output; overwritten if OpTraits::may_overwrite_output_grad
  std::vector<void*> input_grads;     ///< layouts of the inputs; null: not wanted. Overwritten, never added to
  std::vector<float*> params;         ///< layouts: Op::params()
  std::vector<float*> param_grads;    ///< the same layouts; overwritten, never added to
  std::vector<float*> state;          ///< running values, plain
  void* saved = nullptr;              ///< OpTraits::saved_bytes, lives from forward to backward, 64-byte aligned
  void* scratch = nullptr;            ///< OpTraits::scratch_bytes, valid during one call only, 64-byte aligned
};

/// What the memory planner must know.
struct OpTraits {
  std::size_t saved_bytes = 0;
  std::size_t scratch_bytes = 0;
  std::vector<bool> backward_reads_input;  ///< per input: its value must stay until backward
  bool backward_reads_output = false;
  bool may_write_output_over_input = false;  ///< output may share memory with input 0 (same layout)
  bool may_write_grad_over_grad = false;     ///< input_grads[0] may share memory with output_grad (same layout)
  bool passes_grad_through =
      false;  ///< every input gradient equals the output gradient (add): may alias, backward not run
  bool may_overwrite_output_grad =
      false;  ///< backward uses output_grad as working memory: nobody else may read it after
  std::vector<bool> leaves_grad_of_input;  ///< per input (empty: none): after backward output_grad holds this input's
                                           ///< gradient, so a null input_grads[k] costs the caller nothing
  int forward_phases = 1;
  int backward_phases = 1;
  std::int64_t forward_statistics = 0;  ///< doubles summed between forward phases 0 and 1
  std::int64_t backward_statistics = 0;
  std::int64_t deferred_statistics = 0;  ///< doubles summed at the end of a training step
};

class Op {
 public:
  virtual ~Op() = default;
  virtual const TensorDesc& output() const = 0;
  /// Layout of each parameter (and of its gradient), in the order of param_shapes().
  virtual const std::vector<TensorDesc>& params() const = 0;
  virtual const OpTraits& traits() const = 0;
  /// Which kernel runs, for the log: "jit:avx512_core", "ref".
  virtual std::string implementation() const = 0;

  virtual void bind(const OpBuffers& buffers) = 0;
  virtual void forward(int phase, const RunContext& context) = 0;
  /// Writes parameter and input gradients. The gradients are those of sum(output * output_grad) over this micro-batch.
  virtual void backward(int phase, const RunContext& context) = 0;

  /// Share before, totals after the sum over the global batch; sized as in traits(). Points into caller memory set by
  /// bind_statistics, so that the program keeps all of them side by side and one message moves them.
  void bind_statistics(std::span<double> forward, std::span<double> backward, std::span<double> deferred) {
    forward_statistics_ = forward;
    backward_statistics_ = backward;
    deferred_statistics_ = deferred;
  }
  /// Once per step, on one of the micro-batch copies of this op, after all sums: updates the state tensors.
  virtual void end_step(const RunContext&) {}

 protected:
  std::span<double> forward_statistics_;
  std::span<double> backward_statistics_;
  std::span<double> deferred_statistics_;
};

/// Loss ops: forward writes one sum over the micro-batch's samples and, in training, the gradient of the logits.
class LossOp {
 public:
  virtual ~LossOp() = default;
  /// predictions in the layout given to make_loss; targets plain; row_loss [n]: each sample's loss; grad: null outside
  /// training, else d(sum of losses / context.global_rows)/d(predictions), in the layout of the predictions.
  virtual void run(const void* predictions, const void* targets, float* row_loss, void* grad,
                   const RunContext& context) = 0;
};

/// What an op is made for.
struct OpRequest {
  OpSpec spec;
  std::vector<TensorDesc> inputs;        ///< with n, in the layouts in which the producers leave them
  std::vector<bool> wants_input_grad;    ///< per input (empty: all)
  std::vector<TensorDesc> fixed_params;  ///< empty: the op chooses; else it must take these layouts
  bool is_training = true;
  bool is_deterministic = false;  ///< same bits in every run: no choice by timing
  int threads = 1;
};

}  // namespace muster::device
