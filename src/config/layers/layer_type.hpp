// Layers as table entries: a layer type is a Kind whose keys write into a draft. One file per family, one registration
// function each; types.cpp lists them.
#pragma once

#include "config/key.hpp"

#include <muster/model/layers.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace muster::config {

/// A layer while it is read: its spec, and what becomes something else (activation: a layer of its own).
struct LayerDraft {
  model::LayerSpec spec;
  std::string activation = "none";
  bool has_stride = false;                                    ///< pooling: stride given, else it is the kernel
  std::vector<std::pair<std::string, const Node*>> branches;  ///< nodes of the layer lists inside
};

using LayerKey = Key<LayerDraft>;

struct LayerType {
  Kind<LayerDraft> kind;
  std::function<bool(const model::LayerSpec&)> owns;  ///< whether a spec is of this type
  std::function<void(LayerDraft&)> finish = {};       ///< after all keys were read
};

/// The options of a draft as those of one layer struct.
template <class Options>
Options& options_of(LayerDraft& draft) {
  return std::get<Options>(draft.spec.options);
}

std::vector<LayerType> dense_types();
std::vector<LayerType> conv2d_types();
std::vector<LayerType> pool2d_types();
std::vector<LayerType> norm_types();
std::vector<LayerType> activation_types();
std::vector<LayerType> shape_types();  // dropout, flatten, reshape
std::vector<LayerType>
sequence_types();                       // embedding, positional_embedding, multi_head_attention, mlp, transformer, ...
std::vector<LayerType> branch_types();  // residual, concat, add

/// All of them.
const std::vector<LayerType>& layer_types();
/// The layer of an `activation:` key; the kind's name is one of activation_names().
model::LayerOptions activation_options(const std::string& name);
std::vector<std::string> activation_names();

// Keys that several types share.
LayerKey name_key();
LayerKey activation_key();
LayerKey initializer_key(const std::string& name, model::Initializer& (*field)(LayerDraft&),
                         const std::string& meaning);
/// same | valid | n | [h, w] | [top, left, bottom, right]
LayerKey padding_key(std::array<std::int64_t, 4>& (*padding)(LayerDraft&), bool& (*is_same)(LayerDraft&));

/// Reads a list of layers with all its branches, repeats and sugar. path: for messages, e.g. "model.layers".
model::LayerList read_layers(const Node& node, const std::string& path, Reading& reading);
/// The list as read_layers wants it; every name is stated. prefix: of the names inside a branch.
Node write_layers(const model::LayerList& layers, const std::string& prefix);

}  // namespace muster::config
