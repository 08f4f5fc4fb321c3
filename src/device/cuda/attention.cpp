// Attention by kernels of our own that keep all weights from forward to backward: memory grows with the square of the
// length. With a cache, keys and values of earlier calls lie in the op's own memory.
#include "device/cuda/cuda_op.hpp"

#include <muster/base/check.hpp>
#include <muster/base/rng.hpp>

#include <utility>

namespace muster::device::cuda {
namespace {

class Attention : public CudaOp {
 public:
  Attention(Context& context, const OpRequest& request, const AttentionSpec& spec)
      : CudaOp(context, request), spec_(spec) {
    MUSTER_CHECK(spec.cache == 0 || !request.is_training, "caches are for inference");
    const std::int64_t length = request.inputs[0].shape[1], keys = spec.cache > 0 ? spec.cache : length;
    shape_ = {rows_,      length,        last_extent(), keys, last_extent(),
              spec.heads, spec.kv_heads, spec.head_dim, 0,    spec.is_causal};
    traits_.backward_reads_input[0] = true;
    traits_.saved_bytes = weight_bytes() * (has_dropout() ? 2 : 1);
    traits_.scratch_bytes = request.is_training ? weight_bytes() : 0;
    if (spec.cache > 0)
      cache_ = allocate_device(static_cast<std::size_t>(rows_ * spec.cache * last_extent()) * sizeof(float));
  }

  void forward(int, const RunContext& run) override {
    const float* rows = x();
    if (spec_.cache > 0) {
      shape_.first_position = run.position;
      MUSTER_CHECK(run.position + shape_.length <= spec_.cache, "position {} of {}", run.position, spec_.cache);
      keep();
      rows = static_cast<const float*>(cache_.get());
    }
    CUDA_CHECK(attention_weights(x(), rows, weights(), kept(), shape_, dropout_of(run), stream()));
    CUDA_CHECK(attention_output(rows, kept(), y(), shape_, stream()));
  }

  void backward(int, const RunContext& run) override {
    if (!dx()) return;
    CUDA_CHECK(attention_gradient(x(), weights(), kept(), dy(), static_cast<float*>(buffers_.scratch), dx(), shape_,
                                  dropout_of(run), stream()));
  }

 private:
  bool has_dropout() const { return request_.is_training && spec_.dropout > 0; }
  std::size_t weight_bytes() const { return static_cast<std::size_t>(shape_.weights()) * sizeof(float); }
  float* weights() const { return static_cast<float*>(buffers_.saved); }
  float* kept() const { return has_dropout() ? weights() + shape_.weights() : weights(); }

  /// Every sample's new positions go behind those it has.
  void keep() {
    const std::int64_t sample = shape_.length * shape_.width;
    CUDA_CHECK(copy_columns(x(), {0, sample}, static_cast<float*>(cache_.get()),
                            {shape_.first_position * shape_.width, spec_.cache * shape_.width}, rows_, sample,
                            stream()));
  }

  AttentionDropout dropout_of(const RunContext& run) const {
    if (!has_dropout()) return {0.0f, {}, 0};
    const std::uint64_t major = (static_cast<std::uint64_t>(spec_.stream) << 40) + static_cast<std::uint64_t>(run.step);
    const RandomStream random(run.seed, Purpose::dropout, major, static_cast<std::uint32_t>(run.first_row));
    const auto [key, counter] = std::pair(random.key(), random.counter());
    return {spec_.dropout, {{key[0], key[1]}, {counter[0], counter[1]}}, counter[2]};
  }

  AttentionSpec spec_;
  AttentionShape shape_{};
  DeviceMemory cache_;
};

}  // namespace

std::unique_ptr<Op> make_attention(Context& context, const OpRequest& request, const AttentionSpec& spec) {
  return std::make_unique<Attention>(context, request, spec);
}

}  // namespace muster::device::cuda
