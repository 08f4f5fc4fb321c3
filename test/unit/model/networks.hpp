// Short ways to write layer lists in tests.
#pragma once

#include <muster/model/network.hpp>

#include <utility>

namespace muster::model::test {

inline LayerSpec layer(LayerOptions options, std::string name = "") {
  static int count = 0;
  if (name.empty()) name = "layer_" + std::to_string(++count);
  return {std::move(name), "test.yaml:1:1", std::move(options), {}, {}};
}

inline LayerSpec dense(std::int64_t units) {
  return layer(DenseLayer{{units, true, device::Activation::none}, {}, {}});
}

inline LayerSpec conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1, std::int64_t dilation = 1,
                      std::int64_t groups = 1, bool has_bias = true) {
  Conv2dLayer options;
  options.op.filters = filters;
  options.op.kernel = {kernel, kernel};
  options.op.stride = {stride, stride};
  options.op.dilation = {dilation, dilation};
  options.op.groups = groups;
  options.op.has_bias = has_bias;
  options.is_same_padding = true;
  return layer(options);
}

inline LayerSpec activation(device::Activation kind) { return layer(ActivationLayer{{kind, 0.1f, false}}); }
inline LayerSpec relu() { return activation(device::Activation::relu); }

inline LayerSpec batch_norm(std::int64_t group = 0) {
  BatchNormLayer options;
  options.op.group = group;
  return layer(options);
}

inline LayerSpec pool(device::Pool2dSpec::Kind kind, std::int64_t kernel, bool is_global = false) {
  Pool2dLayer options;
  options.op.kind = kind;
  options.op.kernel = options.op.stride = {kernel, kernel};
  options.op.is_global = is_global;
  return layer(options);
}

inline LayerSpec flatten() { return layer(FlattenLayer{}); }
inline LayerSpec dropout(float rate) { return layer(DropoutLayer{{rate, 0}}); }

inline LayerSpec residual(LayerList main, LayerList shortcut = {}) {
  LayerSpec spec = layer(ResidualLayer{});
  spec.branches = {std::move(main), std::move(shortcut)};
  spec.branch_names = {"main", "shortcut"};
  return spec;
}

inline LayerSpec branches(bool is_concat, std::vector<LayerList> lists) {
  LayerSpec spec = layer(BranchesLayer{is_concat});
  spec.branches = std::move(lists);
  return spec;
}

/// A small GPT whose weights are large enough for slopes that can be measured. The head is tied to "tokens".
inline LayerList gpt(std::int64_t vocabulary, std::int64_t width, int blocks, bool is_tied = true) {
  TransformerLayer block;
  block.attention.heads = 2;
  block.attention.weight = block.attention.projection = block.mlp.weight = block.mlp.projection = {"normal", 0.4};
  LayerList layers{layer(EmbeddingLayer{{vocabulary, width}, {"normal", 0.5}}, "tokens"),
                   layer(PositionalEmbeddingLayer{{}, {"normal", 0.5}}, "positions")};
  for (int i = 0; i < blocks; ++i) layers.push_back(layer(block));
  layers.push_back(layer(LayerNormLayer{{1e-5f, true}}));
  DenseLayer head{{vocabulary, false, device::Activation::none, true}, {}, {}, is_tied ? "tokens" : ""};
  layers.push_back(layer(head));
  return layers;
}

}  // namespace muster::model::test
