// A network compiled for one micro-batch size: ops made once, one planned arena (which several sizes may share),
// everything bound. Running it allocates
// nothing and looks nothing up. Owned and run by one thread.
//
// A pass is a list of segments. A segment ends where something must happen between ranks before the pass can go on
// (sums of a two-phase op), or, backward, where a bucket of gradients is complete. The caller (train/step.cpp) runs the
// same segment on all its micro-batches, then sums, then goes on.
//
//   forward:   conv bn0 | bn1 conv bn0 | bn1 dense          bn0, bn1: the phases of batch norm; | : sum the statistics
//   backward:  dense ‖ bn0 | bn1 conv ‖ bn0 | bn1 conv ‖    ‖ : a bucket is complete
#pragma once

#include <muster/device/backend.hpp>
#include <muster/model/memory_plan.hpp>
#include <muster/model/network.hpp>
#include <muster/model/parameters.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::model {

struct ProgramOptions {
  std::int64_t rows = 0;  ///< micro-batch size, > 0
  bool is_training = true;
  bool is_deterministic = false;
  int threads = 1;
  std::int64_t bucket_elements = 1 << 18;
};

/// A stretch of a pass: calls [begin, end) of the program's call list.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::span<double>
      statistics;   ///< of this program; to be replaced by the global sums before the next segment; may be empty
  Range gradients;  ///< backward: the slice of the gradient arena that this segment has written; may be empty
  Range bucket;     ///< backward: the slice to be reduced from here on; covers one or several `gradients`
};

/// Losses are summed in fixed point, so that the sum does not depend on the order of the rows, hence not on the rank
/// count.
inline constexpr double loss_unit = 1.0 / (1 << 20);
/// A row's loss above this (or NaN) counts as not finite.
inline constexpr double loss_limit = 6.8e10;

/// What one micro-batch contributed; sums over its rows.
struct MicroBatchResult {
  std::int64_t rows = 0;
  std::int64_t loss_units = 0;  ///< sum of the rows' losses in loss_unit
  bool is_finite = true;        ///< every row's loss is a number below loss_limit
  std::int64_t correct = 0;     ///< class labels only: labels (several per row where a row has several positions)
  std::int64_t top_k_correct = 0;
};

class StoragePlan;

/// Memory that a program works in, of its backend and 64-byte aligned; programs that do not run at the same time may
/// share it. The arena's content must stay from forward to backward of a micro-batch, the scratch's for one op's call.
struct ProgramMemory {
  std::span<std::byte> arena;
  std::span<std::byte> scratch;
};

class Program {
 public:
  /// Makes the ops. fixed_params: empty, or the layouts every parameter must have (an existing store's).
  Program(const Network& network, device::Backend& backend, const ProgramOptions& options,
          const std::vector<device::TensorDesc>& fixed_params);
  ~Program();

  /// The layouts of the network's parameters as this program wants them.
  const std::vector<device::TensorDesc>& param_descs() const { return param_descs_; }
  std::int64_t rows() const { return options_.rows; }

  /// Activations and their gradients; what all ops need while they run. Known from the start.
  std::size_t arena_bytes() const { return placed_.arena_bytes; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// Binds all ops. gradients: arena of the store's slices (training only), written by backward. memory: at least
  /// arena_bytes() and scratch_bytes(), outliving this; without it the program allocates its own.
  void bind(ParameterStore& store, std::span<float> gradients, const ProgramMemory& memory);
  void bind(ParameterStore& store, std::span<float> gradients);

  const std::vector<Segment>& forward_segments() const { return forward_segments_; }
  const std::vector<Segment>& backward_segments() const { return backward_segments_; }

  /// Copies rows() samples in (plain float32; targets int32 or float32 as the loss wants; null: none). inputs: of a
  /// stage of a pipeline, the values that enter, [rows, shape] one behind the other.
  void load(const float* inputs, const void* targets);
  /// after_op is called after every op: the place where communication makes progress.
  void forward(std::size_t segment, const device::RunContext& context, const std::function<void()>& after_op = {});
  /// Loss, metrics and, in training, the gradient of the output.
  MicroBatchResult loss(const device::RunContext& context);
  void backward(std::size_t segment, const device::RunContext& context, const std::function<void()>& after_op);
  /// Sums for running values, to be replaced by global sums before end_step.
  std::span<double> deferred_statistics() { return deferred_; }
  void end_step(const device::RunContext& context);
  /// Doubles of the largest of the sums that a step makes, the deferred one included. Also before bind().
  std::int64_t widest_statistics() const;

  /// Plain copy of the network's output for all rows: [rows, output...].
  void read_output(float* plain);

  // A stage of a pipeline and its neighbours, packed as in load(). Gradients: of the values that have one.
  std::int64_t entering_elements() const;
  std::int64_t entering_gradient_elements() const;
  std::int64_t leaving_elements() const;
  std::int64_t leaving_gradient_elements() const;
  /// Between forward and backward: what the next stage gets, and the gradient it gives back.
  void read_leaving(float* values);
  void load_leaving_gradient(const float* gradient);
  /// After backward: what the stage before gets.
  void read_entering_gradient(float* gradient);

  /// "conv2d_1 conv2d jit:avx512_core 0.123 MiB saved" per op.
  std::vector<std::string> describe() const;

 private:
  struct Compiled;  // one op with its wiring (src/model/compiled.hpp)
  struct Call {
    int node;
    int phase;
  };

  void make_ops(const std::vector<device::TensorDesc>& fixed_params);
  void plan_storage();
  void plan_gradients();
  void bind_buffers(ParameterStore& store, std::span<float> gradients, const ProgramMemory& memory);
  void bind_statistics();
  /// The first of the nodes whose values are read from outside: the output, or what leaves the stage.
  int first_read_outside() const;
  void finish_statistics(const Segment& segment);
  void plan_forward();
  void plan_backward(const ParameterStore& store);

  const Network& network_;
  device::Backend& backend_;
  ProgramOptions options_;
  std::vector<std::unique_ptr<Compiled>> ops_;
  std::vector<device::TensorDesc> param_descs_;
  /// What enters: the network's input, or what other stages have made.
  struct Input {
    device::TensorDesc desc;
    bool wants_grad = false;
    int value = -1, grad = -1;  // storages
    void* bound_value = nullptr;
    void* bound_grad = nullptr;
  };
  std::vector<Input> inputs_;
  std::unique_ptr<device::LossOp> loss_op_;
  std::unique_ptr<StoragePlan> storage_;
  MemoryPlan placed_;
  std::size_t scratch_bytes_ = 64;
  std::unique_ptr<device::Buffer> arena_, scratch_;  // null: of the caller
  std::vector<Call> forward_calls_, backward_calls_;
  std::vector<Segment> forward_segments_, backward_segments_;
  struct Leaving {
    device::TensorDesc desc;  // plain
    void* value;
    void* grad;  // null: not wanted
  };
  std::vector<Leaving> leaving_;    // bound
  std::vector<double> statistics_;  // all ops' statistics side by side
  std::span<double> deferred_;
  void* output_ = nullptr;
  void* output_grad_ = nullptr;
  // In the backend's memory, and where the host reads and writes.
  std::unique_ptr<device::Buffer> targets_, row_loss_;
  std::vector<std::int32_t> host_targets_;  // labels; float32 targets as they are
  std::vector<float> host_row_loss_, host_output_;
};

}  // namespace muster::model
