// model: shape of the input, layers, loss, metrics. `model.file` is resolved before the table is walked (load.cpp).
#include "config/layers/layer_type.hpp"
#include "config/table.hpp"

namespace muster::config {
namespace {

using device::LossSpec;

const std::vector<Kind<LossSpec>>& loss_kinds() {
  using L = LossSpec;
  static const std::vector<Kind<L>> kinds{
      {"softmax_cross_entropy",
       "class labels; the network ends in one output per class, without softmax",
       {key<L>(
           "label_smoothing", [](L & l) -> auto& { return l.label_smoothing; }, below_from(0, 1),
           "share of the target spread over all classes (Szegedy et al. 2016)")},
       [](L& l) { l = {}, l.kind = L::Kind::softmax_cross_entropy; }},
      {"binary_cross_entropy",
       "targets in [0, 1]; the network ends without sigmoid",
       {},
       [](L& l) { l = {}, l.kind = L::Kind::binary_cross_entropy; }},
      {"mean_squared_error",
       "targets of the output's shape",
       {},
       [](L& l) { l = {}, l.kind = L::Kind::mean_squared_error; }},
  };
  return kinds;
}

const Kind<LossSpec>& loss_kind(const LossSpec& loss) { return loss_kinds()[static_cast<std::size_t>(loss.kind)]; }

ConfigKey loss_key() {
  ConfigKey made;
  made.facts.path = "model.loss";
  made.facts.type = join(names_of(loss_kinds()), " | ");
  made.facts.meaning = "what training makes small";
  made.facts.groups = groups_of(loss_kinds());
  made.set = [](const Node& node, Config& config, const std::string& full, Reading& reading) {
    read_kind(node, loss_kinds(), config.model.loss, full, reading);
  };
  made.get = [](const Config& config) { return write_kind(loss_kind(config.model.loss), config.model.loss); };
  made.get_default = [](const Config& config) { return write_default(loss_kind(config.model.loss)); };
  return made;
}

ConfigKey file_key() {
  ConfigKey made;
  made.facts.path = "model.file";
  made.facts.type = "text";
  made.facts.meaning = "a YAML file with this section's other keys, relative to this file; excludes them here";
  made.set = [](const Node&, Config&, const std::string&, Reading&) {};
  made.get = [](const Config&) { return std::nullopt; };
  return made;
}

ConfigKey layers_key() {
  ConfigKey made;
  made.facts.path = "model.layers";
  made.facts.type = "list of layers";
  made.facts.meaning = "in order of the data; the types are listed below";
  made.facts.example = "[flatten, {dense: {units: 10}}]";
  made.facts.is_required = true;
  made.set = [](const Node& node, Config& config, const std::string& full, Reading& reading) {
    if (node.is_sequence() && node.items.empty()) return add_mismatch(node, "at least one layer", full, reading);
    config.model.layers = read_layers(node, full, reading);
  };
  made.get = [](const Config& config) -> std::optional<Node> {
    if (config.model.layers.empty()) return std::nullopt;
    return write_layers(config.model.layers, "");
  };
  return made;
}

}  // namespace

std::vector<ConfigKey> model_keys() {
  std::vector<ConfigKey> keys{
      file_key(),
      key<Config>(
          "model.input", [](Config & c) -> auto& { return c.model.input; }, {}, "shape of one sample")
          .required()
          .example("[1, 28, 28]"),
      layers_key(),
      loss_key(),
      key<Config>(
          "model.metrics.top_k", [](Config & c) -> auto& { return c.model.top_k; }, at_least_or("off", 1),
          "also report how often the label is among the k largest outputs"),
      key<Config>(
          "model.weights", [](Config & c) -> auto& { return c.model.weights; }, {},
          "safetensors file to start from, with the names of muster or of Hugging Face's GPT-2"),
  };
  for (ConfigKey& one : keys) one.facts.supplied_by = "file";  // where the file cannot be read, that alone is told
  return keys;
}

}  // namespace muster::config
