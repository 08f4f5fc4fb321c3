// How cuDNN convolves: one graph per pass and shape, planned once and kept, so that programs of the same shapes (a
// training step, an evaluation) share them.
#pragma once

#include "device/cuda/cudnn.hpp"
#include "device/cuda/kernels.hpp"

#include <map>
#include <memory>
#include <utility>

namespace muster::device::cuda {

class Context;

/// fused: y = convolution + bias per filter, with relu or without.
enum class ConvPass : std::uint8_t { forward, fused_bias, fused_bias_relu, input_gradient, weight_gradient };

/// Ids of the tensors in the graphs; of the gradients too.
enum ConvTensor : std::int64_t { conv_x = 1, conv_weight = 2, conv_y = 3, conv_bias = 4 };

class ConvPlans {
 public:
  explicit ConvPlans(Context& context) : context_(context) {}
  /// Null where cuDNN has no strict, deterministic engine for it.
  std::shared_ptr<CudnnPlan> get(ConvPass pass, const ConvShape& shape);

 private:
  Context& context_;
  std::map<std::pair<ConvPass, ConvShape>, std::shared_ptr<CudnnPlan>> plans_;
};

}  // namespace muster::device::cuda
