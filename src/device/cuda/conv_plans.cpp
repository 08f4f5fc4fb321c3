#include "device/cuda/conv_plans.hpp"

#include "device/cuda/context.hpp"

#include <algorithm>

namespace muster::device::cuda {
namespace {

/// Padding behind the last element: as much as the last window reads.
std::int64_t padding_behind(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                            std::int64_t dilation, std::int64_t before) {
  return std::max<std::int64_t>(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in - before);
}

Descriptor convolution_of(const ConvShape& s) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::vector<std::int64_t> before{s.top, s.left};
  const std::vector<std::int64_t> behind{padding_behind(s.h, s.oh, s.kernel_h, s.stride_h, s.dilation_h, s.top),
                                         padding_behind(s.w, s.ow, s.kernel_w, s.stride_w, s.dilation_w, s.left)};
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<std::int64_t>{s.dilation_h, s.dilation_w})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<std::int64_t>{s.stride_h, s.stride_w})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, behind)
      .finalize();
  return convolution;
}

/// The names that one kind of convolution has for its parts.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};
constexpr Names forward_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Names input_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Names weight_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const Names& names_of(ConvPass pass) {
  return pass == ConvPass::input_gradient    ? input_names
         : pass == ConvPass::weight_gradient ? weight_names
                                             : forward_names;
}

/// to = mode(from[, by]), element by element.
void add_pointwise(Graph& graph, cudnnPointwiseMode_t mode, const Descriptor& from, const Descriptor* by,
                   const Descriptor& to) {
  Descriptor& how = graph.add(Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
  if (by != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *by);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to).finalize();
  graph.add_operation(std::move(operation));
}

/// Whether the library takes the shape at all; what it cannot do is left to the kernels of our own.
bool add_convolution(Graph& graph, ConvPass pass, const ConvShape& s) {
  const bool is_fused = pass == ConvPass::fused_bias || pass == ConvPass::fused_bias_relu;
  constexpr std::int64_t sum = 5, biased = 6;  // between the operations
  const std::vector<std::int64_t> out{s.n, s.filters, s.oh, s.ow};
  const Descriptor& convolution = graph.add(convolution_of(s));
  const Descriptor& x = graph.add(cudnn_tensor(conv_x, {s.n, s.c, s.h, s.w}));
  const Descriptor& weight = graph.add(cudnn_tensor(conv_weight, {s.filters, s.c / s.groups, s.kernel_h, s.kernel_w}));
  const Descriptor& y = graph.add(cudnn_tensor(conv_y, out));
  const Descriptor& result = is_fused ? graph.add(cudnn_tensor(sum, out, true)) : y;
  const Names& names = names_of(pass);
  Descriptor operation(names.type);
  operation.set(names.convolution, convolution).set(names.x, x).set(names.weight, weight).set(names.y, result);
  operation.set(names.alpha, 1.0f).set(names.beta, 0.0f);
  if (!operation.try_finalize()) return false;
  graph.add_operation(std::move(operation));
  if (!is_fused) return true;
  const Descriptor& bias = graph.add(cudnn_tensor(conv_bias, {1, s.filters, 1, 1}));
  const bool has_relu = pass == ConvPass::fused_bias_relu;
  const Descriptor& with_bias = has_relu ? graph.add(cudnn_tensor(biased, out, true)) : y;
  add_pointwise(graph, CUDNN_POINTWISE_ADD, result, &bias, with_bias);
  if (has_relu) add_pointwise(graph, CUDNN_POINTWISE_RELU_FWD, with_bias, nullptr, y);
  return true;
}

}  // namespace

std::shared_ptr<CudnnPlan> ConvPlans::get(ConvPass pass, const ConvShape& shape) {
  const auto key = std::pair(pass, shape);
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  Graph graph;
  std::shared_ptr<CudnnPlan> plan;
  if (shape.n > 0 && add_convolution(graph, pass, shape))
    plan = CudnnPlan::find(std::move(graph), Context::workspace_bytes, context_.cudnn());
  return plans_[key] = plan;
}

}  // namespace muster::device::cuda
