// residual, concat, add: layers with lists of layers inside. The lists are read by list.cpp, which knows the names.
#include "config/layers/layer_type.hpp"

namespace muster::config {
namespace {

using model::BranchesLayer;
using model::ResidualLayer;

/// One list of a residual: main or shortcut.
LayerKey list_key(const std::string& name, std::size_t index, const std::string& meaning) {
  LayerKey made;
  made.facts.path = name;
  made.facts.type = "list of layers";
  made.facts.meaning = meaning;
  made.set = [name](const Node& node, LayerDraft& draft, const std::string&, Reading&) {
    draft.branches.emplace_back(name, &node);
  };
  made.get = [name, index](const LayerDraft& draft) -> std::optional<Node> {
    if (draft.spec.branches.size() <= index) return std::nullopt;
    return write_layers(draft.spec.branches[index], draft.spec.name + "." + name + ".");
  };
  return made;
}

LayerKey branches_key() {
  LayerKey made;
  made.facts.path = "branches";
  made.facts.type = "map of names to lists of layers";
  made.facts.meaning = "each reads this layer's input; an empty list passes it on";
  made.facts.is_required = true;
  made.set = [](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    if (!node.is_map() || node.entries.size() < 2)
      return add_mismatch(node, "a map of at least two named lists of layers", path, reading);
    for (const Node::Entry& entry : node.entries) draft.branches.emplace_back(entry.key, &entry.value);
  };
  made.get = [](const LayerDraft& draft) -> std::optional<Node> {
    Node out = map();
    for (std::size_t i = 0; i < draft.spec.branches.size(); ++i)
      out.put(draft.spec.branch_names[i],
              write_layers(draft.spec.branches[i], draft.spec.name + "." + draft.spec.branch_names[i] + "."));
    return out;
  };
  return made;
}

LayerType branches_type(const std::string& name, const std::string& meaning, bool is_concat) {
  LayerType type;
  type.kind = {
      name, meaning, {branches_key()}, [is_concat](LayerDraft& d) { d.spec.options = BranchesLayer{is_concat}; }};
  type.owns = [is_concat](const model::LayerSpec& spec) {
    const auto* layer = std::get_if<BranchesLayer>(&spec.options);
    return layer && layer->is_concat == is_concat;
  };
  return type;
}

}  // namespace

std::vector<LayerType> branch_types() {
  LayerType residual;
  residual.kind = {"residual",
                   "main(x) + shortcut(x) (He et al. 2016)",
                   {list_key("main", 0, "the layers of the main branch"),
                    list_key("shortcut", 1, "the layers of the shortcut; none: the identity")},
                   [](LayerDraft& d) { d.spec.options = ResidualLayer{}; }};
  residual.kind.keys[0].facts.is_required = true;
  residual.owns = [](const model::LayerSpec& spec) { return std::holds_alternative<ResidualLayer>(spec.options); };
  residual.finish = [](LayerDraft& draft) {  // main first, whatever the order in the file
    std::stable_sort(draft.branches.begin(), draft.branches.end(),
                     [](const auto& a, const auto& b) { return a.first == "main" && b.first != "main"; });
  };
  return {residual, branches_type("concat", "branches joined along the channels", true),
          branches_type("add", "sum of branches", false)};
}

}  // namespace muster::config
