#include <muster/train/gpt2.hpp>

#include <muster/base/error.hpp>

#include <algorithm>
#include <set>

namespace muster::train {
namespace {

struct Name {
  std::string theirs;
  bool is_transposed = false;
};

/// Follows a network from its input to its output and gives every parameter its name in GPT-2. What is not the same
/// function as GPT-2's is refused where it stands: names alone would fit weights that compute something else there.
class Reader {
 public:
  explicit Reader(const model::Network& network) : network_(network), names_(network.params.size()) {}

  std::vector<Name> run() {
    const Node& tokens = next<device::EmbeddingSpec>("an embedding of tokens");
    width_ = std::get<device::EmbeddingSpec>(tokens.spec).width;
    name(tokens, {{"wte.weight"}});
    name(next<device::PositionalEmbeddingSpec>("a positional_embedding"), {{"wpe.weight"}});
    int blocks = 0;
    const Node* norm = &layer_norm();
    for (; begins_attention(); norm = &layer_norm()) block(fmt::format("h.{}.", blocks++), *norm);
    name(*norm, {{"ln_f.weight"}, {"ln_f.bias"}});
    const Node& head = dense(std::get<device::EmbeddingSpec>(tokens.spec).vocabulary, false);
    if (head.params != tokens.params) name(head, {{"lm_head.weight"}});
    if (!is_at_end()) differs(node(next_), "its end", device::name_of(node(next_).spec));
    return names_;
  }

 private:
  using Node = model::Node;

  const Node& node(int i) const { return network_.nodes[static_cast<std::size_t>(i)]; }
  /// Dropout is the identity where the weights are used.
  void pass_dropouts() {
    while (next_ < static_cast<int>(network_.nodes.size()) &&
           std::holds_alternative<device::DropoutSpec>(node(next_).spec) && node(next_).inputs[0] == at_)
      at_ = next_++;
  }
  bool is_at_end() {
    pass_dropouts();
    return next_ == static_cast<int>(network_.nodes.size());
  }
  [[noreturn]] static void differs(const Node& found, const std::string& expected, const std::string& instead) {
    fail(ExitCode::usage, "{}: layer '{}': GPT-2 has {} here, the network {}", found.where, found.name, expected,
         instead);
  }

  void block(const std::string& h, const Node& norm) {
    const int stem = norm.inputs[0];
    name(norm, {{h + "ln_1.weight"}, {h + "ln_1.bias"}});
    name(dense(3 * width_, true), {{h + "attn.c_attn.weight", true}, {h + "attn.c_attn.bias"}});
    next<device::AttentionSpec>("attention");
    name(dense(width_, true), {{h + "attn.c_proj.weight", true}, {h + "attn.c_proj.bias"}});
    const int middle = add(stem);
    name(layer_norm(), {{h + "ln_2.weight"}, {h + "ln_2.bias"}});
    name(dense(4 * width_, true), {{h + "mlp.c_fc.weight", true}, {h + "mlp.c_fc.bias"}});
    gelu();
    name(dense(width_, true), {{h + "mlp.c_proj.weight", true}, {h + "mlp.c_proj.bias"}});
    add(middle);
  }

  /// The node that reads the value at hand.
  template <class Spec>
  const Node& next(const std::string& expected) {
    if (is_at_end())
      fail(ExitCode::usage, "GPT-2 has {} behind layer '{}', where the network ends", expected,
           network_.nodes.back().name);
    const Node& found = node(next_);
    if (!std::holds_alternative<Spec>(found.spec) || found.inputs[0] != at_)
      differs(found, expected, device::name_of(found.spec));
    at_ = next_++;
    return found;
  }
  const Node& layer_norm() {
    const Node& found = next<device::LayerNormSpec>("a layer_norm");
    const auto& spec = std::get<device::LayerNormSpec>(found.spec);
    if (!spec.is_per_position) differs(found, "a layer_norm with per_position: true", "one over all positions");
    if (spec.epsilon != 1e-5f) differs(found, "epsilon 1e-05", fmt::format("{:g}", spec.epsilon));
    return found;
  }
  /// Whether queries, keys and values come next; what GPT-2's attention cannot do is refused here, before it shows in
  /// their number.
  bool begins_attention() {
    if (is_at_end() || next_ + 1 == static_cast<int>(network_.nodes.size())) return false;
    const Node& found = node(next_ + 1);
    if (std::holds_alternative<device::RotarySpec>(found.spec)) differs(found, "no rotary positions", "such");
    const auto* spec = std::get_if<device::AttentionSpec>(&found.spec);
    if (!spec) return false;
    if (!spec->is_causal) differs(found, "causal attention", "one that sees all positions");
    if (spec->kv_heads != spec->heads)
      differs(found, fmt::format("as many kv_heads as heads, {},", spec->heads), fmt::format("{}", spec->kv_heads));
    return true;
  }
  const Node& dense(std::int64_t units, bool has_bias) {
    const Node& found = next<device::DenseSpec>(fmt::format("a dense layer of {} units", units));
    const auto& spec = std::get<device::DenseSpec>(found.spec);
    const auto describe = [](std::int64_t count, bool is_with_bias) {
      return fmt::format("{} units {} bias", count, is_with_bias ? "with" : "without");
    };
    if (spec.units != units || spec.has_bias != has_bias)
      differs(found, describe(units, has_bias), describe(spec.units, spec.has_bias));
    if (!spec.is_per_position || spec.activation != device::Activation::none)
      differs(found, "a plain dense layer per position", "one with another activation or over all positions");
    return found;
  }
  void gelu() {
    const Node& found = next<device::ActivationSpec>("gelu");
    const auto& spec = std::get<device::ActivationSpec>(found.spec);
    if (spec.kind != device::Activation::gelu || !spec.is_gelu_tanh)
      differs(found, "gelu with approximate: tanh",
              spec.kind == device::Activation::gelu ? "the exact one" : "another activation");
  }
  int add(int stem) {
    const Node& found = next<device::AddSpec>("the sum with what entered the branch");
    if (found.inputs.size() != 2 || found.inputs[1] != stem ||
        std::get<device::AddSpec>(found.spec).activation != device::Activation::none)
      differs(found, "the sum with what entered the branch", "another sum");
    return at_;
  }
  void name(const Node& found, const std::vector<Name>& theirs) {
    for (std::size_t k = 0; k < theirs.size(); ++k) names_[static_cast<std::size_t>(found.params[k])] = theirs[k];
  }

  const model::Network& network_;
  std::vector<Name> names_;  // per parameter
  std::int64_t width_ = 0;
  int at_ = model::network_input, next_ = 0;  // the value at hand; the node after it
};

std::vector<Name> names_of(const model::Network& network) { return Reader(network).run(); }

const NamedTensor* find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name || tensor.name == "transformer." + name) return &tensor;
  return nullptr;
}

Shape transposed(const Shape& shape) { return {shape[1], shape[0]}; }

std::vector<float> transposed(const std::vector<float>& values, const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = values[i * columns + j];
  return out;
}

NamedTensor renamed(const NamedTensor& from, const std::string& name, bool is_transposed) {
  if (!is_transposed) return {name, from.shape, from.values};
  return {name, transposed(from.shape), transposed(from.values, from.shape)};
}

}  // namespace

namespace {

/// Of a tensor that no parameter took. Masks are made anew; a stored copy of the tied head must be one.
void check_unused(const std::string& name, const NamedTensor& tensor, const std::vector<NamedTensor>& theirs) {
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return;
  if (name != "lm_head.weight")
    fail(ExitCode::checkpoint, "the file holds '{}', which the network does not have", tensor.name);
  if (tensor.values != find(theirs, "wte.weight")->values)
    fail(ExitCode::checkpoint, "'{}' differs from 'wte.weight', and the network ties its head to the embedding",
         tensor.name);
}

}  // namespace

std::vector<NamedTensor> to_gpt2(const model::Network& network, const std::vector<NamedTensor>& own) {
  const std::vector<Name> names = names_of(network);
  std::vector<NamedTensor> result;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const NamedTensor* tensor = find(own, network.params[p].name);
    if (!tensor) fail(ExitCode::checkpoint, "expected the parameter '{}', found none", network.params[p].name);
    result.push_back(renamed(*tensor, names[p].theirs, names[p].is_transposed));
  }
  return result;
}

std::vector<NamedTensor> from_gpt2(const model::Network& network, const std::vector<NamedTensor>& theirs) {
  const std::vector<Name> names = names_of(network);
  std::vector<NamedTensor> result;
  std::set<std::string> used;
  for (std::size_t p = 0; p < names.size(); ++p) {
    used.insert(names[p].theirs);
    const model::ParamInfo& param = network.params[p];
    const NamedTensor* tensor = find(theirs, names[p].theirs);
    if (!tensor)
      fail(ExitCode::checkpoint, "expected the tensor '{}' for '{}', found none", names[p].theirs, param.name);
    const Shape expected = names[p].is_transposed ? transposed(param.shape) : param.shape;
    if (tensor->shape != expected)
      fail(ExitCode::checkpoint, "expected the tensor '{}' with shape {} for '{}', found {}", names[p].theirs,
           expected.text(), param.name, tensor->shape.text());
    result.push_back(renamed(*tensor, param.name, names[p].is_transposed));
  }
  for (const NamedTensor& tensor : theirs) {
    constexpr std::string_view prefix = "transformer.";
    const std::string name = tensor.name.starts_with(prefix) ? tensor.name.substr(prefix.size()) : tensor.name;
    if (!used.contains(name)) check_unused(name, tensor, theirs);
  }
  return result;
}

bool is_gpt2(const std::vector<NamedTensor>& tensors) { return find(tensors, "wte.weight") != nullptr; }

}  // namespace muster::train
