// batch_norm, layer_norm, rms_norm
#include "config/layers/layer_type.hpp"

namespace muster::config {
namespace {

using model::BatchNormLayer;
using model::LayerNormLayer;
using model::RmsNormLayer;

/// global, or {group: k}: which samples share their statistics.
LayerKey scope_key() {
  LayerKey made;
  made.facts.path = "scope";
  made.facts.type = "global | {group: integer >= 1}";
  made.facts.meaning = "samples that share statistics: the whole global batch, or every k consecutive ones";
  made.set = [](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    const auto chosen = choose(node, {"global", "group"}, path, reading);
    if (!chosen) return;
    std::int64_t& group = options_of<BatchNormLayer>(draft).op.group;
    if (chosen->name == "global" && !chosen->keys) group = 0;
    else if (chosen->name == "group" && chosen->keys)
      read_value(*chosen->keys, group, at_least(1), path + ".group", reading);
    else add_mismatch(node, "global or {group: <samples>}", path, reading);
  };
  made.get = [](const LayerDraft& draft) {
    const std::int64_t group = std::get<BatchNormLayer>(draft.spec.options).op.group;
    return group == 0 ? scalar("global") : map({{"group", scalar(fmt::format("{}", group))}});
  };
  return made;
}

}  // namespace

std::vector<LayerType> norm_types() {
  using D = LayerDraft;
  return {{{"batch_norm",
            "normalises each channel over the batch (Ioffe and Szegedy 2015)",
            {key<D>(
                 "epsilon", [](D & d) -> auto& { return options_of<BatchNormLayer>(d).op.epsilon; }, above(0),
                 "added to the variance"),
             key<D>(
                 "momentum", [](D & d) -> auto& { return options_of<BatchNormLayer>(d).op.momentum; }, between(0, 1),
                 "weight of the newest batch in the running statistics"),
             scope_key()},
            [](D& d) { d.spec.options = BatchNormLayer{}; }},
           [](const model::LayerSpec& spec) { return std::holds_alternative<BatchNormLayer>(spec.options); }},
          {{"layer_norm",
            "normalises each sample over all its axes (Ba et al. 2016)",
            {key<D>(
                 "epsilon", [](D & d) -> auto& { return options_of<LayerNormLayer>(d).op.epsilon; }, above(0),
                 "added to the variance"),
             key<D>(
                 "per_position", [](D & d) -> auto& { return options_of<LayerNormLayer>(d).op.is_per_position; }, {},
                 "over the last axis alone")},
            [](D& d) { d.spec.options = LayerNormLayer{}; }},
           [](const model::LayerSpec& spec) { return std::holds_alternative<LayerNormLayer>(spec.options); }},
          {{"rms_norm",
            "divides the last axis by the root of its mean square (Zhang and Sennrich 2019)",
            {key<D>(
                "epsilon", [](D & d) -> auto& { return options_of<RmsNormLayer>(d).op.epsilon; }, above(0),
                "added to the mean square")},
            [](D& d) { d.spec.options = RmsNormLayer{}; }},
           [](const model::LayerSpec& spec) { return std::holds_alternative<RmsNormLayer>(spec.options); }}};
}

}  // namespace muster::config
