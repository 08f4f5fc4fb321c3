// dense
#include "config/layers/layer_type.hpp"

namespace muster::config {

using model::DenseLayer;

std::vector<LayerType> dense_types() {
  using D = LayerDraft;
  return {
      {{"dense",
        "y = activation(x W^T + b), x taken as a flat vector",
        {key<D>(
             "units", [](D & d) -> auto& { return options_of<DenseLayer>(d).op.units; }, at_least_if_stated(1),
             "outputs per sample")
             .required(),
         key<D>(
             "bias", [](D & d) -> auto& { return options_of<DenseLayer>(d).op.has_bias; }, {}, "add a trained bias"),
         activation_key(),
         initializer_key(
             "weight_init", [](D & d) -> auto& { return options_of<DenseLayer>(d).weight; }, "start of the weights"),
         initializer_key(
             "bias_init", [](D & d) -> auto& { return options_of<DenseLayer>(d).bias; }, "start of the bias")},
        [](D& d) { d.spec.options = DenseLayer{}; }},
       [](const model::LayerSpec& spec) { return std::holds_alternative<DenseLayer>(spec.options); }}};
}

}  // namespace muster::config
