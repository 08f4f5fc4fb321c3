// dense
#include "config/layers/layer_type.hpp"

namespace muster::config {

using model::DenseLayer;

namespace {

LayerKey tie_key() {
  auto made = key<LayerDraft>(
      "tie", [](LayerDraft & d) -> auto& { return options_of<DenseLayer>(d).tied_to; }, {},
      "earlier layer whose weight this one uses too, e.g. the embedding of the same width");
  made.get = [](const LayerDraft& draft) -> std::optional<Node> {
    const std::string& name = std::get<DenseLayer>(draft.spec.options).tied_to;
    return name.empty() ? std::nullopt : std::optional<Node>(string_scalar(name));
  };
  return made;
}

}  // namespace

std::vector<LayerType> dense_types() {
  using D = LayerDraft;
  return {
      {{"dense",
        "y = activation(x W^T + b), x taken as a flat vector or position by position",
        {key<D>(
             "units", [](D & d) -> auto& { return options_of<DenseLayer>(d).op.units; }, at_least_if_stated(1),
             "outputs per sample")
             .required(),
         key<D>(
             "bias", [](D & d) -> auto& { return options_of<DenseLayer>(d).op.has_bias; }, {}, "add a trained bias"),
         key<D>(
             "per_position", [](D & d) -> auto& { return options_of<DenseLayer>(d).op.is_per_position; }, {},
             "apply to the last axis alone: [..., features] becomes [..., units]"),
         tie_key(), activation_key(),
         initializer_key(
             "weight_init", [](D & d) -> auto& { return options_of<DenseLayer>(d).weight; }, "start of the weights"),
         initializer_key(
             "bias_init", [](D & d) -> auto& { return options_of<DenseLayer>(d).bias; }, "start of the bias")},
        [](D& d) { d.spec.options = DenseLayer{}; }},
       [](const model::LayerSpec& spec) { return std::holds_alternative<DenseLayer>(spec.options); }}};
}

}  // namespace muster::config
