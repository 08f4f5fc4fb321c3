// embedding, positional_embedding, swiglu, multi_head_attention, mlp, transformer
#include "config/layers/layer_type.hpp"

namespace muster::config {
namespace {

using D = LayerDraft;
using model::AttentionLayer;
using model::EmbeddingLayer;
using model::MlpLayer;
using model::PositionalEmbeddingLayer;
using model::TransformerLayer;

/// The attention or mlp part of the layer that a key belongs to: the layer itself, or a part of a transformer block.
AttentionLayer& attention(D& d) {
  auto* block = std::get_if<TransformerLayer>(&d.spec.options);
  return block ? block->attention : options_of<AttentionLayer>(d);
}
MlpLayer& mlp(D& d) {
  auto* block = std::get_if<TransformerLayer>(&d.spec.options);
  return block ? block->mlp : options_of<MlpLayer>(d);
}

/// A key with two words, held as a bool.
LayerKey word_key(const std::string& name, const std::string& no, const std::string& yes, bool& (*field)(D&),
                  const std::string& meaning) {
  LayerKey made;
  made.facts.path = name;
  made.facts.type = no + " | " + yes;
  made.facts.meaning = meaning;
  made.set = [=](const Node& node, D& draft, const std::string& path, Reading& reading) {
    std::string word;
    if (read_value(node, word, choice({no, yes}), path, reading)) field(draft) = word == yes;
  };
  made.get = [=](const D& draft) { return scalar(field(const_cast<D&>(draft)) ? yes : no); };
  return made;
}

std::vector<LayerKey> attention_keys() {
  return {key<D>(
              "heads", [](D & d) -> auto& { return attention(d).heads; }, at_least_if_stated(1), "heads of queries")
              .required(),
          key<D>(
              "kv_heads", [](D & d) -> auto& { return attention(d).kv_heads; }, at_least_or("heads", 1),
              "heads of keys and values, each read by heads / kv_heads heads of queries"),
          key<D>(
              "head_dim", [](D & d) -> auto& { return attention(d).head_dim; }, at_least_or("auto", 1),
              "features of a head; auto: width / heads"),
          key<D>(
              "causal", [](D & d) -> auto& { return attention(d).is_causal; }, {},
              "a position sees itself and those before it"),
          key<D>(
              "attention_dropout", [](D & d) -> auto& { return attention(d).dropout; }, below_from(0, 1),
              "share of attention weights set to zero"),
          key<D>(
              "rotary_base", [](D & d) -> auto& { return attention(d).rotary_base; }, at_least_or("off", 1),
              "rotary positions (Su et al. 2021) with this base, usually 10000")};
}

std::vector<LayerKey> mlp_keys() {
  return {word_key(
              "kind", "gelu", "swiglu", [](D& d) -> bool& { return mlp(d).is_swiglu; },
              "what stands between the two dense layers"),
          word_key(
              "approximate", "none", "tanh", [](D& d) -> bool& { return mlp(d).is_gelu_tanh; },
              "gelu: none: with the error function; tanh: the approximation"),
          key<D>(
              "hidden", [](D & d) -> auto& { return mlp(d).hidden; }, at_least_or("auto", 1),
              "width between them; auto: 4 x width, for swiglu 8/3 x width rounded up to a multiple of 8")};
}

void set_part_bias(D& d, bool has_bias) {
  if (auto* block = std::get_if<TransformerLayer>(&d.spec.options))
    block->attention.has_bias = block->mlp.has_bias = has_bias;
  else if (auto* one = std::get_if<AttentionLayer>(&d.spec.options)) one->has_bias = has_bias;
  else options_of<MlpLayer>(d).has_bias = has_bias;
}
bool part_bias(const D& d) {
  if (const auto* block = std::get_if<TransformerLayer>(&d.spec.options)) return block->attention.has_bias;
  if (const auto* one = std::get_if<AttentionLayer>(&d.spec.options)) return one->has_bias;
  return std::get<MlpLayer>(d.spec.options).has_bias;
}

model::Initializer& weight(D& d) {
  return std::holds_alternative<MlpLayer>(d.spec.options) ? mlp(d).weight : attention(d).weight;
}
model::Initializer& projection(D& d) {
  return std::holds_alternative<MlpLayer>(d.spec.options) ? mlp(d).projection : attention(d).projection;
}

/// bias and starts: of all dense layers inside.
std::vector<LayerKey> dense_keys() {
  LayerKey bias;
  bias.facts.path = "bias";
  bias.facts.type = "boolean";
  bias.facts.meaning = "dense layers add a trained bias, which starts at zero";
  bias.set = [](const Node& node, D& draft, const std::string& path, Reading& reading) {
    if (bool value = true; read_value(node, value, {}, path, reading)) set_part_bias(draft, value);
  };
  bias.get = [](const D& draft) { return scalar(part_bias(draft) ? "true" : "false"); };
  return {bias, initializer_key("weight_init", weight, "start of the weights"),
          initializer_key("projection_init", projection, "start of the last dense layer before the sum")};
}

template <class... Lists>
std::vector<LayerKey> joined(Lists... lists) {
  std::vector<LayerKey> all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

template <class Options>
LayerType type_of(const std::string& name, const std::string& meaning, std::vector<LayerKey> keys) {
  return {{name, meaning, std::move(keys), [](D& d) { d.spec.options = Options{}; }},
          [](const model::LayerSpec& spec) { return std::holds_alternative<Options>(spec.options); }};
}

LayerType transformer_type() {
  auto type = type_of<TransformerLayer>(
      "transformer", "a block: x += attention(norm(x)), x += mlp(norm(x)) (Vaswani et al. 2017, norms first)",
      joined(attention_keys(), mlp_keys(), dense_keys(),
             std::vector<LayerKey>{
                 word_key(
                     "norm", "layer_norm", "rms_norm",
                     [](D& d) -> bool& { return options_of<TransformerLayer>(d).is_rms_norm; }, "both norms"),
                 key<D>(
                     "epsilon", [](D & d) -> auto& { return options_of<TransformerLayer>(d).epsilon; }, above(0),
                     "of the norms"),
                 key<D>(
                     "dropout", [](D & d) -> auto& { return options_of<TransformerLayer>(d).dropout; },
                     below_from(0, 1), "of what is added to x")}));
  type.finish = [](D& d) {  // both parts start alike
    auto& block = options_of<TransformerLayer>(d);
    block.mlp.weight = block.attention.weight;
    block.mlp.projection = block.attention.projection;
  };
  return type;
}

}  // namespace

std::vector<LayerType> sequence_types() {
  return {type_of<EmbeddingLayer>(
              "embedding", "a trained vector per token id; its input is [positions]",
              {key<D>(
                   "vocabulary", [](D & d) -> auto& { return options_of<EmbeddingLayer>(d).op.vocabulary; },
                   at_least_if_stated(1), "number of token ids")
                   .required(),
               key<D>(
                   "width", [](D & d) -> auto& { return options_of<EmbeddingLayer>(d).op.width; },
                   at_least_if_stated(1), "features per position")
                   .required(),
               initializer_key(
                   "weight_init", [](D & d) -> auto& { return options_of<EmbeddingLayer>(d).weight; },
                   "start of the weights")}),
          type_of<PositionalEmbeddingLayer>(
              "positional_embedding", "adds a trained vector per position",
              {key<D>(
                   "length", [](D & d) -> auto& { return options_of<PositionalEmbeddingLayer>(d).op.length; },
                   at_least_or("input", 1), "positions in the table"),
               initializer_key(
                   "weight_init", [](D & d) -> auto& { return options_of<PositionalEmbeddingLayer>(d).weight; },
                   "start of the weights")}),
          type_of<model::SwigluLayer>("swiglu", "silu(a) b for the halves a and b of the last axis (Shazeer 2020)", {}),
          type_of<AttentionLayer>("multi_head_attention",
                                  "attention with its dense layers before and after (Vaswani et al. 2017)",
                                  joined(attention_keys(), dense_keys())),
          type_of<MlpLayer>("mlp", "two dense layers per position with gelu or a gate between",
                            joined(mlp_keys(), dense_keys())),
          transformer_type()};
}

}  // namespace muster::config
