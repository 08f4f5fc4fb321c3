// The registry of layer types, and the keys that several of them share.
#include "config/layers/layer_type.hpp"

#include "config/number.hpp"

namespace muster::config {

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> all = [] {
    std::vector<LayerType> types;
    for (const auto family : {dense_types, conv2d_types, pool2d_types, norm_types, activation_types, shape_types,
                              sequence_types, branch_types})
      for (LayerType& type : family()) types.push_back(std::move(type));
    for (LayerType& type : types) type.kind.keys.insert(type.kind.keys.begin(), name_key());
    return types;
  }();
  return all;
}

LayerKey name_key() {
  auto made = key<LayerDraft>(
      "name", [](LayerDraft & d) -> auto& { return d.spec.name; }, {},
      "key of its parameters in checkpoints; type and number when not given");
  made.set = [](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    std::string name;
    if (!read_value(node, name, {}, path, reading)) return;
    const bool is_good =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
    if (is_good) draft.spec.name = name;
    else add_mismatch(node, "letters, digits, _ and -", path, reading);
  };
  return made;
}

namespace {

/// Initializers that take a number, and what it is.
std::string value_of(const std::string& initializer) {
  if (initializer == "constant") return "the value";
  if (initializer == "normal" || initializer == "truncated_normal") return "the standard deviation";
  if (initializer == "uniform") return "the bound";
  return "";
}

void read_initializer(const Node& node, model::Initializer& out, const std::string& path, Reading& reading) {
  const auto chosen = choose(node, model::initializer_names(), path, reading);
  if (!chosen) return;
  const std::string wanted = value_of(chosen->name);
  if (wanted.empty() && chosen->keys) {
    reading.problems.add(chosen->place, path, fmt::format("'{}' takes no value: write the name alone", chosen->name));
  } else if (!wanted.empty() && !chosen->keys) {
    reading.problems.add(chosen->place, path, fmt::format("'{0}' needs {1}: {{{0}: 0.05}}", chosen->name, wanted));
  } else {
    double value = 0;
    const Limits limits = chosen->name == "constant" ? Limits{} : above(0);
    if (chosen->keys && !read_value(*chosen->keys, value, limits, path + "." + chosen->name, reading)) return;
    out = {chosen->name, value};
  }
}

using Padding = std::array<std::int64_t, 4>;

void read_padding(const Node& node, Padding& padding, bool& is_same, const std::string& path, Reading& reading) {
  static const std::string expected = "same, valid, an integer >= 0, [height, width] or [top, left, bottom, right]";
  is_same = node.is_scalar() && node.text == "same";
  if (is_same) return;
  if (node.is_scalar() && node.text == "valid") return padding.fill(0);
  std::vector<std::int64_t> values;
  for (const Node& item : node.is_sequence() ? node.items : std::vector<Node>{node}) {
    const auto value = item.is_scalar() && !item.is_quoted ? parse_integer(item.text) : std::nullopt;
    if (!value || *value < 0) return add_mismatch(node, expected, path, reading);
    values.push_back(*value);
  }
  if (values.size() == 1 && !node.is_sequence()) padding.fill(values[0]);
  else if (values.size() == 2) padding = {values[0], values[1], values[0], values[1]};
  else if (values.size() == 4) padding = {values[0], values[1], values[2], values[3]};
  else add_mismatch(node, expected, path, reading);
}

}  // namespace

LayerKey initializer_key(const std::string& name, model::Initializer& (*field)(LayerDraft&),
                         const std::string& meaning) {
  LayerKey made;
  made.facts.path = name;
  made.facts.type = "name or {constant | uniform | normal | truncated_normal: number}";
  made.facts.meaning = meaning + ": " + join(model::initializer_names(), ", ");
  made.set = [field](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    read_initializer(node, field(draft), path, reading);
  };
  made.get = [field](const LayerDraft& draft) {
    const model::Initializer& initializer = field(const_cast<LayerDraft&>(draft));
    if (value_of(initializer.name).empty()) return scalar(initializer.name);
    return map({{initializer.name, scalar(number_text(initializer.value))}});
  };
  return made;
}

LayerKey padding_key(Padding& (*padding)(LayerDraft&), bool& (*is_same)(LayerDraft&)) {
  LayerKey made;
  made.facts.path = "padding";
  made.facts.type = "same | valid | integer | [h, w] | [top, left, bottom, right]";
  made.facts.unit = "pixels";
  made.facts.meaning = "same: output extent ceil(input / stride)";
  made.set = [=](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    read_padding(node, padding(draft), is_same(draft), path, reading);
  };
  made.get = [=](const LayerDraft& constant) -> std::optional<Node> {
    auto& draft = const_cast<LayerDraft&>(constant);
    if (is_same(draft)) return scalar("same");
    const Padding& sides = padding(draft);
    if (sides == Padding{}) return scalar("valid");
    std::vector<Node> items;
    for (const std::int64_t side : sides) items.push_back(scalar(fmt::format("{}", side)));
    return sequence(std::move(items));
  };
  return made;
}

}  // namespace muster::config
