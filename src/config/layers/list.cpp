// From a list of nodes to a list of layers: repeats are unrolled, `activation:` becomes a layer, names are made and
// checked. Names count per type inside each list: conv2d_1, conv2d_2; inside a branch they carry its name in front,
// residual_1.main.conv2d_1. Explicit names inside a repeat get the number of the round: hidden_1, hidden_2.
#include "config/layers/layer_type.hpp"

#include <map>

namespace muster::config {
namespace {

constexpr std::int64_t most_repeats = 10'000;
constexpr std::size_t most_layers = 100'000;

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const LayerType& type : layer_types()) names.push_back(type.kind.name);
  names.push_back("repeat");
  return names;
}

class ListReader {
 public:
  explicit ListReader(Reading& reading) : reading_(reading) {}

  /// One list with a counter of its own.
  model::LayerList read(const Node& node, const std::string& path, const std::string& prefix) {
    Scope scope{prefix, {}, ""};
    model::LayerList layers;
    read_items(node, path, scope, layers);
    return layers;
  }

 private:
  struct Scope {
    std::string prefix;                 // of all names in this list
    std::map<std::string, int> counts;  // layers so far, by type
    std::string round;                  // "_2" in the second round of a repeat
  };

  void read_items(const Node& node, const std::string& path, Scope& scope, model::LayerList& layers) {
    if (!node.is_sequence()) return add_mismatch(node, "a list of layers", path, reading_);
    for (std::size_t i = 0; i < node.items.size(); ++i)
      read_item(node.items[i], fmt::format("{}[{}]", path, i), scope, layers);
  }

  void read_item(const Node& node, const std::string& path, Scope& scope, model::LayerList& layers) {
    const auto chosen = choose(node, type_names(), path, reading_);
    if (!chosen) return;
    if (chosen->name == "repeat") return read_repeat(*chosen, path + ".repeat", scope, layers);
    const auto type = std::find_if(layer_types().begin(), layer_types().end(),
                                   [&](const LayerType& one) { return one.kind.name == chosen->name; });
    read_layer(*type, *chosen, path + "." + chosen->name, scope, layers);
  }

  void read_layer(const LayerType& type, const Chosen& chosen, const std::string& path, Scope& scope,
                  model::LayerList& layers) {
    if (++count_ > most_layers) {
      if (count_ == most_layers + 1)
        reading_.problems.add(chosen.place, path, fmt::format("more than {} layers", most_layers));
      return;
    }
    LayerDraft draft;
    read_keys(type.kind, chosen, draft, path, reading_);
    if (type.finish) type.finish(draft);
    const bool is_named = !draft.spec.name.empty();
    const std::string counted = count_name(type.kind.name, scope);
    draft.spec.name = scope.prefix + (is_named ? draft.spec.name + scope.round : counted);
    draft.spec.where = chosen.place.text();
    claim(draft.spec.name, chosen.place, path);
    for (const auto& [name, list] : draft.branches) {
      draft.spec.branch_names.push_back(name);
      const bool is_direct = type.kind.name == "residual";
      draft.spec.branches.push_back(
          read(*list, path + (is_direct ? "." : ".branches.") + name, draft.spec.name + "." + name + "."));
    }
    if (type.kind.name == "residual" && draft.spec.branches.size() == 1) {
      draft.spec.branch_names.push_back("shortcut");
      draft.spec.branches.emplace_back();
    }
    layers.push_back(draft.spec);
    if (draft.activation != "none") add_activation(draft, chosen, path, scope, layers);
  }

  void add_activation(const LayerDraft& draft, const Chosen& chosen, const std::string& path, Scope& scope,
                      model::LayerList& layers) {
    model::LayerSpec spec;
    spec.name = scope.prefix + count_name(draft.activation, scope);
    spec.where = chosen.place.text();
    spec.options = activation_options(draft.activation);
    claim(spec.name, chosen.place, path);
    layers.push_back(std::move(spec));
  }

  void read_repeat(const Chosen& chosen, const std::string& path, Scope& scope, model::LayerList& layers) {
    static const std::vector<std::string> known{"times", "layers"};
    Node none;
    none.place = chosen.place;
    const Node& keys = chosen.keys ? *chosen.keys : none;
    if (!expect_map(keys, known, path, reading_)) return;
    for (const Node::Entry& entry : keys.entries)
      if (std::find(known.begin(), known.end(), entry.key) == known.end())
        add_unknown_key(entry, known, path + "." + entry.key, "", reading_);
    std::int64_t times = 0;
    for (const std::string& name : known)
      if (!keys.find(name)) reading_.problems.add(chosen.place, path + "." + name, "missing");
    const Node* given = keys.find("times");
    const Node* list = keys.find("layers");
    if (!given || !list ||
        !read_value(*given, times, between(1, static_cast<double>(most_repeats)), path + ".times", reading_))
      return;
    const std::string outer_round = scope.round;
    for (std::int64_t k = 1; k <= times && count_ <= most_layers; ++k) {
      const std::size_t before = reading_.problems.size();
      scope.round = fmt::format("{}_{}", outer_round, k);
      read_items(*list, path + ".layers", scope, layers);
      if (reading_.problems.size() > before) break;  // the other rounds would say the same
    }
    scope.round = outer_round;
  }

  static std::string count_name(const std::string& type, Scope& scope) {
    return fmt::format("{}_{}", type, ++scope.counts[type]);
  }

  void claim(const std::string& name, const Place& place, const std::string& path) {
    const auto [found, is_new] = names_.emplace(name, place);
    if (!is_new)
      reading_.problems.add(place, path,
                            fmt::format("duplicate layer name '{}', first at {}; give one of them another name", name,
                                        found->second.text()));
  }

  Reading& reading_;
  std::map<std::string, Place> names_;
  std::size_t count_ = 0;
};

}  // namespace

model::LayerList read_layers(const Node& node, const std::string& path, Reading& reading) {
  return ListReader(reading).read(node, path, "");
}

Node write_layers(const model::LayerList& layers, const std::string& prefix) {
  std::vector<Node> items;
  for (const model::LayerSpec& layer : layers) {
    const auto type =
        std::find_if(layer_types().begin(), layer_types().end(), [&](const LayerType& one) { return one.owns(layer); });
    LayerDraft draft;
    draft.spec = layer;
    Node node = write_kind(type->kind, draft);
    node.entries[0].value.put("name", string_scalar(layer.name.substr(prefix.size())));
    items.push_back(std::move(node));
  }
  return sequence(std::move(items));
}

}  // namespace muster::config
