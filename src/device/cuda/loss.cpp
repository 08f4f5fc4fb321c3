// Losses. Where a sample has several positions their losses are averaged by a second kernel.
#include "device/cuda/cuda_op.hpp"

#include <algorithm>

namespace muster::device::cuda {
namespace {

class Loss : public LossOp {
 public:
  Loss(Context& context, const LossSpec& spec, const TensorDesc& predictions)
      : context_(context), spec_(spec), rows_(predictions.shape[0]) {
    columns_ = predictions.shape.elements() / rows_;
    if (spec.kind != LossSpec::Kind::softmax_cross_entropy) return;
    positions_ = columns_ / predictions.shape[predictions.shape.rank() - 1];
    columns_ /= positions_;
    if (positions_ > 1) losses_ = allocate_device(static_cast<std::size_t>(rows_ * positions_) * sizeof(float));
  }

  void run(const void* predictions, const void* targets, float* row_loss, void* grad, const RunContext& run) override {
    const auto* z = static_cast<const float*>(predictions);
    auto* dz = static_cast<float*>(grad);
    const double samples = static_cast<double>(std::max<std::int64_t>(run.global_rows, 1));
    const auto scale = static_cast<float>(1.0 / (samples * static_cast<double>(positions_)));
    cudaStream_t stream = context_.stream();
    switch (spec_.kind) {
      case LossSpec::Kind::softmax_cross_entropy: {
        float* losses = positions_ > 1 ? static_cast<float*>(losses_.get()) : row_loss;
        CUDA_CHECK(softmax_cross_entropy(z, static_cast<const std::int32_t*>(targets), losses, dz,
                                         spec_.label_smoothing, scale, rows_ * positions_, columns_, stream));
        if (positions_ > 1) CUDA_CHECK(row_means(losses, row_loss, rows_, positions_, stream));
        break;
      }
      case LossSpec::Kind::mean_squared_error:
        CUDA_CHECK(
            mean_squared_error(z, static_cast<const float*>(targets), row_loss, dz, scale, rows_, columns_, stream));
        break;
      case LossSpec::Kind::binary_cross_entropy:
        CUDA_CHECK(
            binary_cross_entropy(z, static_cast<const float*>(targets), row_loss, dz, scale, rows_, columns_, stream));
        break;
    }
  }

 private:
  Context& context_;
  LossSpec spec_;
  std::int64_t rows_, positions_ = 1, columns_ = 0;  // columns_: classes, or predictions of a sample
  DeviceMemory losses_;                              // per position, where a sample has several
};

}  // namespace

std::unique_ptr<LossOp> make_loss(Context& context, const LossSpec& spec, const TensorDesc& predictions) {
  return std::make_unique<Loss>(context, spec, predictions);
}

}  // namespace muster::device::cuda
