// dropout, flatten, reshape
#include "config/layers/layer_type.hpp"

namespace muster::config {

using model::DropoutLayer;
using model::FlattenLayer;
using model::ReshapeLayer;

std::vector<LayerType> shape_types() {
  using D = LayerDraft;
  return {
      {{"dropout",
        "sets elements to zero at random while training (Srivastava et al. 2014)",
        {key<D>(
            "rate", [](D & d) -> auto& { return options_of<DropoutLayer>(d).op.rate; }, below_from(0, 1),
            "share of elements set to zero")},
        [](D& d) { d.spec.options = DropoutLayer{}; }},
       [](const model::LayerSpec& spec) { return std::holds_alternative<DropoutLayer>(spec.options); }},
      {{"flatten", "one long vector per sample", {}, [](D& d) { d.spec.options = FlattenLayer{}; }},
       [](const model::LayerSpec& spec) { return std::holds_alternative<FlattenLayer>(spec.options); }},
      {{"reshape",
        "the same elements under another shape",
        {key<D>(
             "shape", [](D & d) -> auto& { return options_of<ReshapeLayer>(d).op.sample_shape; }, {}, "of one sample")
             .required()},
        [](D& d) { d.spec.options = ReshapeLayer{}; }},
       [](const model::LayerSpec& spec) { return std::holds_alternative<ReshapeLayer>(spec.options); }}};
}

}  // namespace muster::config
