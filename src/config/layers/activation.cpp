// relu, leaky_relu, gelu, silu, tanh, sigmoid: as layers, and as the `activation:` key of others.
#include "config/layers/layer_type.hpp"

namespace muster::config {
namespace {

using device::Activation;
using model::ActivationLayer;

struct Named {
  const char* name;
  Activation kind;
  const char* meaning;
};
constexpr Named activations[] = {
    {"relu", Activation::relu, "max(x, 0)"},
    {"leaky_relu", Activation::leaky_relu, "x where positive, else slope x"},
    {"gelu", Activation::gelu, "x Phi(x) (Hendrycks and Gimpel 2016)"},
    {"silu", Activation::silu, "x sigmoid(x)"},
    {"tanh", Activation::tanh, "hyperbolic tangent"},
    {"sigmoid", Activation::sigmoid, "1 / (1 + exp(-x))"},
};

model::LayerOptions options_for(Activation kind) {
  ActivationLayer layer;
  layer.op.kind = kind;
  return layer;
}

LayerKey approximate_key() {
  LayerKey made;
  made.facts.path = "approximate";
  made.facts.type = "none | tanh";
  made.facts.meaning = "none: with the error function; tanh: the approximation";
  made.set = [](const Node& node, LayerDraft& draft, const std::string& path, Reading& reading) {
    std::string word;
    if (read_value(node, word, choice({"none", "tanh"}), path, reading))
      options_of<ActivationLayer>(draft).op.is_gelu_tanh = word == "tanh";
  };
  made.get = [](const LayerDraft& draft) {
    return scalar(std::get<ActivationLayer>(draft.spec.options).op.is_gelu_tanh ? "tanh" : "none");
  };
  return made;
}

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Named& one : activations) names.push_back(one.name);
  return names;
}

model::LayerOptions activation_options(const std::string& name) {
  for (const Named& one : activations)
    if (one.name == name) return options_for(one.kind);
  return {};
}

LayerKey activation_key() {
  std::vector<std::string> names{"none"};
  for (const Named& one : activations) names.push_back(one.name);
  auto made = key<LayerDraft>(
      "activation", [](LayerDraft & d) -> auto& { return d.activation; }, choice(names),
      "short for a layer of this type after this one");
  made.get = [](const LayerDraft&) { return std::nullopt; };  // has become a layer of its own
  return made;
}

std::vector<LayerType> activation_types() {
  using D = LayerDraft;
  std::vector<LayerType> types;
  for (const Named& one : activations) {
    LayerType type;
    type.kind = {one.name, one.meaning, {}, [kind = one.kind](D& d) { d.spec.options = options_for(kind); }};
    type.owns = [kind = one.kind](const model::LayerSpec& spec) {
      const auto* layer = std::get_if<ActivationLayer>(&spec.options);
      return layer && layer->op.kind == kind;
    };
    if (one.kind == Activation::leaky_relu)
      type.kind.keys = {key<D>(
          "slope", [](D & d) -> auto& { return options_of<ActivationLayer>(d).op.slope; }, between(0, 1),
          "slope of the negative side")};
    if (one.kind == Activation::gelu) type.kind.keys = {approximate_key()};
    types.push_back(type);
  }
  return types;
}

}  // namespace muster::config
