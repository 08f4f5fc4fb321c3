// The network as the config describes it: a list of layers with nested branches. Pure data; network.hpp turns it into a
// graph of ops. Options structs are the device's op specs where a layer is one op.
#pragma once

#include <muster/device/spec.hpp>

#include <string>
#include <variant>
#include <vector>

namespace muster::model {

struct LayerSpec;
using LayerList = std::vector<LayerSpec>;

/// How a parameter starts. Names: zeros, ones, constant, normal, uniform, truncated_normal, glorot_uniform,
/// glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal.
struct Initializer {
  std::string name = "default";  ///< default: U(-1/sqrt(fan_in), 1/sqrt(fan_in)), as PyTorch's layers
  double value = 0.0;            ///< constant: the value; normal: standard deviation; uniform: bound
};
std::vector<std::string> initializer_names();

struct DenseLayer {
  device::DenseSpec op;
  Initializer weight, bias{"default", 0};
  std::string tied_to = {};  ///< name of an earlier layer whose weight this one uses; "": its own
};
struct Conv2dLayer {
  device::Conv2dSpec op;
  bool is_same_padding = false;  ///< Keras' "same": output extent ceil(input / stride), extra padding below and right
  Initializer weight, bias{"default", 0};
};
struct Pool2dLayer {
  device::Pool2dSpec op;
  bool is_same_padding = false;
};
struct BatchNormLayer {
  device::BatchNormSpec op;
};
struct LayerNormLayer {
  device::LayerNormSpec op;
};
struct ActivationLayer {
  device::ActivationSpec op;
};
struct DropoutLayer {
  device::DropoutSpec op;
};
struct FlattenLayer {};
struct ReshapeLayer {
  device::ReshapeSpec op;
};
/// y = main(x) + shortcut(x); an empty shortcut is the identity.
struct ResidualLayer {};
/// Named branches over one input, joined by concat (channels) or add.
struct BranchesLayer {
  bool is_concat = true;
};

/// Token ids to vectors; the network's input is [positions].
struct EmbeddingLayer {
  device::EmbeddingSpec op;
  Initializer weight{"normal", 0.02};
};
struct PositionalEmbeddingLayer {
  device::PositionalEmbeddingSpec op;  ///< length 0: the positions of its input
  Initializer weight{"normal", 0.02};
};
struct RmsNormLayer {
  device::RmsNormSpec op;
};
struct SwigluLayer {};

/// Queries, keys and values by one dense layer ("<name>.qkv"), rotary positions, attention, and a dense layer back to
/// the input's width ("<name>.projection").
struct AttentionLayer {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as heads
  std::int64_t head_dim = 0;  ///< 0: width / heads
  bool is_causal = true;
  float dropout = 0.0f;      ///< of the attention weights
  float rotary_base = 0.0f;  ///< 0: no rotary positions
  bool has_bias = true;
  Initializer weight{"normal", 0.02}, projection{"normal", 0.02};
};

/// Two dense layers with gelu or a gate between: "<name>.up", "<name>.down".
struct MlpLayer {
  bool is_swiglu = false;    ///< else gelu
  bool is_gelu_tanh = true;  ///< the tanh approximation
  std::int64_t hidden = 0;   ///< 0: 4 * width for gelu; 8/3 of the width, rounded up to a multiple of 8, for swiglu
  bool has_bias = true;
  Initializer weight{"normal", 0.02}, projection{"normal", 0.02};
};

/// x += dropout(attention(norm(x))); x += dropout(mlp(norm(x))): "<name>.norm_1", ".attention", ".norm_2", ".mlp".
struct TransformerLayer {
  AttentionLayer attention;
  MlpLayer mlp;
  bool is_rms_norm = false;
  float epsilon = 1e-5f;
  float dropout = 0.0f;  ///< of both branches' ends
};

using LayerOptions =
    std::variant<DenseLayer, Conv2dLayer, Pool2dLayer, BatchNormLayer, LayerNormLayer, ActivationLayer, DropoutLayer,
                 FlattenLayer, ReshapeLayer, ResidualLayer, BranchesLayer, EmbeddingLayer, PositionalEmbeddingLayer,
                 RmsNormLayer, SwigluLayer, AttentionLayer, MlpLayer, TransformerLayer>;

/// One entry of the list. residual: branches[0] = main, branches[1] = shortcut (may be empty).
struct LayerSpec {
  std::string name;   ///< given by `name:` or made from type and position, e.g. "conv2d_1"
  std::string where;  ///< "configs/x.yaml:12:5", for messages
  LayerOptions options;
  std::vector<std::string> branch_names;
  std::vector<LayerList> branches;
};

/// The `model:` section.
struct ModelOptions {
  Shape input;  ///< of one sample, e.g. [1, 28, 28]
  LayerList layers;
  device::LossSpec loss;
  int top_k = 0;             ///< also report top-k accuracy; 0: off
  std::string weights = {};  ///< safetensors file to start from; "": the layers' own starts
};

}  // namespace muster::model
