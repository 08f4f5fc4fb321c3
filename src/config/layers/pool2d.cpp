// max_pool2d, average_pool2d, global_max_pool, global_average_pool
#include "config/layers/layer_type.hpp"

namespace muster::config {
namespace {

using model::Pool2dLayer;
using PoolKind = device::Pool2dSpec::Kind;

device::Pool2dSpec& op_of(LayerDraft& draft) { return options_of<Pool2dLayer>(draft).op; }

LayerType pool_type(const std::string& name, const std::string& meaning, PoolKind pool_kind, bool is_global) {
  using D = LayerDraft;
  LayerType type;
  type.kind = {name, meaning, {}, [pool_kind, is_global](D& d) {
                 Pool2dLayer layer;
                 layer.op.kind = pool_kind;
                 layer.op.is_global = is_global;
                 d.spec.options = layer;
               }};
  type.owns = [pool_kind, is_global](const model::LayerSpec& spec) {
    const auto* layer = std::get_if<Pool2dLayer>(&spec.options);
    return layer && layer->op.kind == pool_kind && layer->op.is_global == is_global;
  };
  if (is_global) return type;
  auto stride = key<D>(
                    "stride", [](D & d) -> auto& { return op_of(d).stride; }, at_least(1),
                    "distance of the windows; the kernel when not given")
                    .unit("pixels");
  stride.set = [set = stride.set](const Node& node, D& d, const std::string& path, Reading& reading) {
    d.has_stride = true;
    set(node, d, path, reading);
  };
  type.kind.keys = {key<D>(
                        "kernel", [](D & d) -> auto& { return op_of(d).kernel; }, at_least(1), "window")
                        .unit("pixels")
                        .required(),
                    stride,
                    padding_key(
                        [](D & d) -> auto& { return op_of(d).padding; },
                        [](D & d) -> auto& { return options_of<Pool2dLayer>(d).is_same_padding; })};
  type.finish = [](D& d) {
    if (!d.has_stride) op_of(d).stride = op_of(d).kernel;
  };
  return type;
}

}  // namespace

std::vector<LayerType> pool2d_types() {
  return {pool_type("max_pool2d", "largest value of each window", PoolKind::max, false),
          pool_type("average_pool2d", "mean of each window, padding left out", PoolKind::average, false),
          pool_type("global_max_pool", "largest value of each channel: [c, h, w] -> [c]", PoolKind::max, true),
          pool_type("global_average_pool", "mean of each channel: [c, h, w] -> [c]", PoolKind::average, true)};
}

}  // namespace muster::config
