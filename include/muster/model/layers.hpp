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

using LayerOptions = std::variant<DenseLayer, Conv2dLayer, Pool2dLayer, BatchNormLayer, LayerNormLayer, ActivationLayer,
                                  DropoutLayer, FlattenLayer, ReshapeLayer, ResidualLayer, BranchesLayer>;

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
  int top_k = 0;  ///< also report top-k accuracy; 0: off
};

}  // namespace muster::model
