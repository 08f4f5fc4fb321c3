// Making oneDNN primitive descriptors with one spelling for oneDNN 2 and 3, whose C++ interfaces differ here and
// nowhere else that matters to us. The only file that asks for the library's version.
#pragma once

#include <dnnl.hpp>

namespace muster::device::cpu {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::primitive_attr;
using dnnl::prop_kind;

/// Window of a convolution or pooling. dilation 0 means none, as oneDNN counts.
struct Window {
  memory::dims kernel, stride, dilation, padding_before, padding_after;
};

#if DNNL_VERSION_MAJOR >= 3
#define MUSTER_DNNL_PD(primitive, attr, engine, ...) dnnl::primitive::primitive_desc(engine, __VA_ARGS__, attr)
#define MUSTER_DNNL_BACKWARD_PD(primitive, attr, engine, hint, ...) \
  dnnl::primitive::primitive_desc(engine, __VA_ARGS__, hint, attr)
#else
#define MUSTER_DNNL_PD(primitive, attr, engine, ...) \
  dnnl::primitive::primitive_desc(dnnl::primitive::desc(__VA_ARGS__), attr, engine)
#define MUSTER_DNNL_BACKWARD_PD(primitive, attr, engine, hint, ...) \
  dnnl::primitive::primitive_desc(dnnl::primitive::desc(__VA_ARGS__), attr, engine, hint)
#endif

// kernel: convolution_direct or convolution_winograd. bias: null for none.
inline auto convolution_forward(const dnnl::engine& engine, const primitive_attr& attr, algorithm kernel,
                                prop_kind kind, const memory::desc& src, const memory::desc& weights,
                                const memory::desc* bias, const memory::desc& dst, const Window& w) {
  if (bias)
    return MUSTER_DNNL_PD(convolution_forward, attr, engine, kind, kernel, src, weights, *bias, dst, w.stride,
                          w.dilation, w.padding_before, w.padding_after);
  return MUSTER_DNNL_PD(convolution_forward, attr, engine, kind, kernel, src, weights, dst, w.stride, w.dilation,
                        w.padding_before, w.padding_after);
}

inline auto convolution_backward_data(const dnnl::engine& engine, const primitive_attr& attr, algorithm kernel,
                                      const memory::desc& diff_src, const memory::desc& weights,
                                      const memory::desc& diff_dst, const Window& w,
                                      const dnnl::convolution_forward::primitive_desc& hint) {
  return MUSTER_DNNL_BACKWARD_PD(convolution_backward_data, attr, engine, hint, kernel, diff_src, weights, diff_dst,
                                 w.stride, w.dilation, w.padding_before, w.padding_after);
}

inline auto convolution_backward_weights(const dnnl::engine& engine, const primitive_attr& attr, algorithm kernel,
                                         const memory::desc& src, const memory::desc& diff_weights,
                                         const memory::desc* diff_bias, const memory::desc& diff_dst, const Window& w,
                                         const dnnl::convolution_forward::primitive_desc& hint) {
  if (diff_bias)
    return MUSTER_DNNL_BACKWARD_PD(convolution_backward_weights, attr, engine, hint, kernel, src, diff_weights,
                                   *diff_bias, diff_dst, w.stride, w.dilation, w.padding_before, w.padding_after);
  return MUSTER_DNNL_BACKWARD_PD(convolution_backward_weights, attr, engine, hint, kernel, src, diff_weights, diff_dst,
                                 w.stride, w.dilation, w.padding_before, w.padding_after);
}

inline auto inner_product_forward(const dnnl::engine& engine, const primitive_attr& attr, prop_kind kind,
                                  const memory::desc& src, const memory::desc& weights, const memory::desc* bias,
                                  const memory::desc& dst) {
  if (bias) return MUSTER_DNNL_PD(inner_product_forward, attr, engine, kind, src, weights, *bias, dst);
  return MUSTER_DNNL_PD(inner_product_forward, attr, engine, kind, src, weights, dst);
}

inline auto inner_product_backward_data(const dnnl::engine& engine, const primitive_attr& attr,
                                        const memory::desc& diff_src, const memory::desc& weights,
                                        const memory::desc& diff_dst,
                                        const dnnl::inner_product_forward::primitive_desc& hint) {
  return MUSTER_DNNL_BACKWARD_PD(inner_product_backward_data, attr, engine, hint, diff_src, weights, diff_dst);
}

inline auto inner_product_backward_weights(const dnnl::engine& engine, const primitive_attr& attr,
                                           const memory::desc& src, const memory::desc& diff_weights,
                                           const memory::desc* diff_bias, const memory::desc& diff_dst,
                                           const dnnl::inner_product_forward::primitive_desc& hint) {
  if (diff_bias)
    return MUSTER_DNNL_BACKWARD_PD(inner_product_backward_weights, attr, engine, hint, src, diff_weights, *diff_bias,
                                   diff_dst);
  return MUSTER_DNNL_BACKWARD_PD(inner_product_backward_weights, attr, engine, hint, src, diff_weights, diff_dst);
}

/// How a blocked format lies: the stride of each axis between whole blocks, and the inner blocks from outside to
/// inside.
struct Blocks {
  memory::dims strides, inner_axes, inner_sizes;
};

#if DNNL_VERSION_MAJOR >= 3
inline Blocks blocks_of(const memory::desc& desc) {
  return {desc.get_strides(), desc.get_inner_idxs(), desc.get_inner_blks()};
}
inline auto pooling_forward(const dnnl::engine& engine, const primitive_attr& attr, prop_kind kind, algorithm kernel,
                            const memory::desc& src, const memory::desc& dst, const Window& w) {
  return dnnl::pooling_forward::primitive_desc(engine, kind, kernel, src, dst, w.stride, w.kernel,
                                               memory::dims(w.kernel.size(), 0), w.padding_before, w.padding_after,
                                               attr);
}
inline auto pooling_backward(const dnnl::engine& engine, const primitive_attr& attr, algorithm kernel,
                             const memory::desc& diff_src, const memory::desc& diff_dst, const Window& w,
                             const dnnl::pooling_forward::primitive_desc& hint) {
  return dnnl::pooling_backward::primitive_desc(engine, kernel, diff_src, diff_dst, w.stride, w.kernel,
                                                memory::dims(w.kernel.size(), 0), w.padding_before, w.padding_after,
                                                hint, attr);
}
inline algorithm average_without_padding() { return algorithm::pooling_avg_exclude_padding; }
inline void append_relu(dnnl::post_ops& ops) { ops.append_eltwise(algorithm::eltwise_relu, 0.0f, 0.0f); }
#else
inline Blocks blocks_of(const memory::desc& desc) {
  const auto& format = desc.data.format_desc.blocking;
  return {{format.strides, format.strides + desc.data.ndims},
          {format.inner_idxs, format.inner_idxs + format.inner_nblks},
          {format.inner_blks, format.inner_blks + format.inner_nblks}};
}
inline auto pooling_forward(const dnnl::engine& engine, const primitive_attr& attr, prop_kind kind, algorithm kernel,
                            const memory::desc& src, const memory::desc& dst, const Window& w) {
  return dnnl::pooling_forward::primitive_desc(
      {kind, kernel, src, dst, w.stride, w.kernel, w.padding_before, w.padding_after}, attr, engine);
}
inline auto pooling_backward(const dnnl::engine& engine, const primitive_attr& attr, algorithm kernel,
                             const memory::desc& diff_src, const memory::desc& diff_dst, const Window& w,
                             const dnnl::pooling_forward::primitive_desc& hint) {
  return dnnl::pooling_backward::primitive_desc(
      {kernel, diff_src, diff_dst, w.stride, w.kernel, w.padding_before, w.padding_after}, attr, engine, hint);
}
inline algorithm average_without_padding() { return algorithm::pooling_avg_exclude_padding; }
inline void append_relu(dnnl::post_ops& ops) { ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f); }
#endif

}  // namespace muster::device::cpu
