// conv2d
#include "config/layers/layer_type.hpp"

namespace muster::config {

using model::Conv2dLayer;

std::vector<LayerType> conv2d_types() {
  using D = LayerDraft;
  LayerType type;
  type.kind = {
      "conv2d",
      "2-D convolution of images [channels, height, width]",
      {key<D>(
           "filters", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.filters; }, at_least_if_stated(1),
           "output channels")
           .required(),
       key<D>(
           "kernel", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.kernel; }, at_least(1), "window")
           .unit("pixels")
           .required(),
       key<D>(
           "stride", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.stride; }, at_least(1),
           "distance of the windows")
           .unit("pixels"),
       padding_key(
           [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.padding; },
           [](D & d) -> auto& { return options_of<Conv2dLayer>(d).is_same_padding; }),
       key<D>(
           "dilation", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.dilation; }, at_least(1),
           "distance of the window's taps")
           .unit("pixels"),
       key<D>(
           "groups", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.groups; }, at_least(1),
           "independent groups of channels"),
       key<D>(
           "bias", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).op.has_bias; }, {},
           "add a trained bias per filter"),
       activation_key(),
       initializer_key(
           "weight_init", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).weight; }, "start of the weights"),
       initializer_key(
           "bias_init", [](D & d) -> auto& { return options_of<Conv2dLayer>(d).bias; }, "start of the bias")},
      [](D& d) { d.spec.options = Conv2dLayer{}; }};
  type.owns = [](const model::LayerSpec& spec) { return std::holds_alternative<Conv2dLayer>(spec.options); };
  return {type};
}

}  // namespace muster::config
