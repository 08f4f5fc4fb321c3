// Layers: every type with its keys, short forms, names, repeats and branches.
#include "testing.hpp"

#include <muster/model/network.hpp>

namespace muster::config::testing {
namespace {

model::LayerList layers_of(const std::string& yaml) { return load_quietly(with_layers(yaml)).config.model.layers; }

Lines names_of(const model::LayerList& layers) {
  Lines names;
  for (const auto& layer : layers) {
    names.push_back(layer.name);
    for (const auto& branch : layer.branches)
      for (const auto& name : names_of(branch)) names.push_back(name);
  }
  return names;
}

template <class Options>
Options only(const std::string& yaml) {
  return std::get<Options>(layers_of(yaml).at(0).options);
}

using Four = std::array<std::int64_t, 4>;
using Two = std::array<std::int64_t, 2>;

TEST(Layer, DenseReadsEveryKey) {
  const auto layers = layers_of(
      "    - dense: {name: out, units: 7, bias: no, weight_init: {normal: 0.02}, bias_init: {constant: -1}}\n");
  const auto dense = std::get<model::DenseLayer>(layers[0].options);
  EXPECT_EQ(layers[0].name, "out");
  EXPECT_EQ(layers[0].where, "c.yaml:8:7");
  EXPECT_EQ(dense.op.units, 7);
  EXPECT_FALSE(dense.op.has_bias);
  EXPECT_EQ(dense.weight.name, "normal");
  EXPECT_EQ(dense.weight.value, 0.02);
  EXPECT_EQ(dense.bias.name, "constant");
  EXPECT_EQ(dense.bias.value, -1);
}

TEST(Layer, ConvolutionReadsEveryKey) {
  const auto conv = only<model::Conv2dLayer>(
      "    - conv2d: {filters: 4, kernel: [3, 5], stride: 2, padding: [1, 2], dilation: [1, 2], groups: 1, bias: "
      "true}\n");
  EXPECT_EQ(conv.op.filters, 4);
  EXPECT_EQ(conv.op.kernel, (Two{3, 5}));
  EXPECT_EQ(conv.op.stride, (Two{2, 2}));
  EXPECT_EQ(conv.op.dilation, (Two{1, 2}));
  EXPECT_EQ(conv.op.padding, (Four{1, 2, 1, 2}));
  EXPECT_FALSE(conv.is_same_padding);
}

TEST(Layer, PaddingHasFiveForms) {
  const auto padding = [](const std::string& text) {
    return only<model::Conv2dLayer>("    - conv2d: {filters: 4, kernel: 3, padding: " + text + "}\n");
  };
  EXPECT_TRUE(padding("same").is_same_padding);
  EXPECT_EQ(padding("valid").op.padding, (Four{0, 0, 0, 0}));
  EXPECT_EQ(padding("2").op.padding, (Four{2, 2, 2, 2}));
  EXPECT_EQ(padding("[1, 2]").op.padding, (Four{1, 2, 1, 2}));
  EXPECT_EQ(padding("[1, 2, 3, 4]").op.padding, (Four{1, 2, 3, 4}));
  for (const std::string wrong : {"[1]", "[1, 2, 3]", "-1", "big", "\"2\""})
    EXPECT_EQ(problems_of(with_layers("    - conv2d: {filters: 4, kernel: 3, padding: " + wrong + "}\n")).size(), 1u)
        << wrong;
}

TEST(Layer, PoolingStridesByItsKernelUnlessTold) {
  EXPECT_EQ(only<model::Pool2dLayer>("    - max_pool2d: {kernel: 3}\n").op.stride, (Two{3, 3}));
  EXPECT_EQ(only<model::Pool2dLayer>("    - max_pool2d: {stride: 1, kernel: 3}\n").op.stride, (Two{1, 1}));
  const auto average = only<model::Pool2dLayer>("    - average_pool2d: {kernel: [2, 3], padding: same}\n");
  EXPECT_EQ(average.op.kind, device::Pool2dSpec::Kind::average);
  EXPECT_TRUE(average.is_same_padding);
  EXPECT_TRUE(only<model::Pool2dLayer>("    - global_max_pool\n").op.is_global);
  EXPECT_EQ(only<model::Pool2dLayer>("    - global_average_pool\n").op.kind, device::Pool2dSpec::Kind::average);
}

TEST(Layer, NormsActivationsAndTheRest) {
  const auto norm =
      only<model::BatchNormLayer>("    - batch_norm: {epsilon: 1e-3, momentum: 0.25, scope: {group: 4}}\n").op;
  EXPECT_EQ(norm.epsilon, 1e-3f);
  EXPECT_EQ(norm.momentum, 0.25f);
  EXPECT_EQ(norm.group, 4);
  EXPECT_EQ(only<model::BatchNormLayer>("    - batch_norm: {scope: global}\n").op.group, 0);
  EXPECT_EQ(only<model::LayerNormLayer>("    - layer_norm: {epsilon: .5}\n").op.epsilon, 0.5f);
  EXPECT_EQ(only<model::ActivationLayer>("    - leaky_relu: {slope: 0.2}\n").op.slope, 0.2f);
  EXPECT_TRUE(only<model::ActivationLayer>("    - gelu: {approximate: tanh}\n").op.is_gelu_tanh);
  EXPECT_FALSE(only<model::ActivationLayer>("    - gelu\n").op.is_gelu_tanh);
  const std::pair<const char*, device::Activation> kinds[] = {{"relu", device::Activation::relu},
                                                              {"silu", device::Activation::silu},
                                                              {"tanh", device::Activation::tanh},
                                                              {"sigmoid", device::Activation::sigmoid}};
  for (const auto& [name, kind] : kinds)
    EXPECT_EQ(only<model::ActivationLayer>(fmt::format("    - {}\n", name)).op.kind, kind);
  EXPECT_EQ(only<model::DropoutLayer>("    - dropout: {rate: 0.25}\n").op.rate, 0.25f);
  EXPECT_EQ(only<model::ReshapeLayer>("    - reshape: {shape: [36]}\n").op.sample_shape, (Shape{36}));
  EXPECT_EQ(problems_of(with_layers("    - batch_norm: {scope: {group: 0}}\n")).front(),
            "c.yaml:8:35: model.layers[0].batch_norm.scope.group: expected integer >= 1, found '0'");
  EXPECT_EQ(problems_of(with_layers("    - batch_norm: {scope: {global: 3}}\n")).size(), 1u);
}

TEST(Layer, NamesCountPerType) {
  EXPECT_EQ(
      names_of(layers_of(
          "    - conv2d: {filters: 2, kernel: 1}\n    - relu\n    - conv2d: {filters: 2, kernel: 1, name: mine}\n"
          "    - conv2d: {filters: 2, kernel: 1, activation: relu}\n    - dense: {units: 3, activation: gelu}\n")),
      (Lines{"conv2d_1", "relu_1", "mine", "conv2d_3", "relu_2", "dense_1", "gelu_1"}));
}

TEST(Layer, BranchesPutTheirNameInFront) {
  const auto layers = layers_of(
      "    - residual:\n"
      "        shortcut: [{conv2d: {filters: 2, kernel: 1}}]\n"
      "        main:\n"
      "          - conv2d: {filters: 2, kernel: 1}\n"
      "          - residual: {main: [relu]}\n"
      "    - concat: {name: both, branches: {left: [{conv2d: {filters: 2, kernel: 1}}, {conv2d: {name: second, "
      "filters: 2, kernel: 1}}], right: []}}\n");
  EXPECT_EQ(names_of(layers), (Lines{"residual_1", "residual_1.main.conv2d_1", "residual_1.main.residual_1",
                                     "residual_1.main.residual_1.main.relu_1", "residual_1.shortcut.conv2d_1", "both",
                                     "both.left.conv2d_1", "both.left.second"}));
  EXPECT_EQ(layers[0].branch_names, (Lines{"main", "shortcut"}));  // whatever the order in the file
  EXPECT_EQ(layers[0].branches[0][1].branches.size(), 2u);
  EXPECT_TRUE(layers[0].branches[0][1].branches[1].empty());
  EXPECT_EQ(layers[1].branch_names, (Lines{"left", "right"}));
  EXPECT_TRUE(std::get<model::BranchesLayer>(layers[1].options).is_concat);
  EXPECT_FALSE(only<model::BranchesLayer>("    - add: {branches: {a: [], b: [relu]}}\n").is_concat);
  EXPECT_EQ(problems_of(with_layers("    - add: {branches: {a: []}}\n")),
            Lines{"c.yaml:8:23: model.layers[0].add.branches: expected a map of at least two named lists of layers, "
                  "found the map {a: []}"});
  EXPECT_EQ(problems_of(with_layers("    - residual: {main: [{dense: {unit: 1}}]}\n")).front(),
            "c.yaml:8:33: model.layers[0].residual.main[0].dense.units: missing; expected integer >= 1");
  EXPECT_EQ(problems_of(with_layers("    - add: {branches: {a: [relo], b: []}}\n")),
            Lines{"c.yaml:8:28: model.layers[0].add.branches.a[0]: unknown 'relo'; did you mean 'relu'?"});
}

TEST(Layer, RepeatUnrollsWithDistinctNames) {
  EXPECT_EQ(names_of(layers_of("    - dense: {units: 5}\n    - repeat: {times: 3, layers: [{dense: {units: 5}}, {relu: "
                               "{name: bend}}]}\n    - dense: {units: 2}\n")),
            (Lines{"dense_1", "dense_2", "bend_1", "dense_3", "bend_2", "dense_4", "bend_3", "dense_5"}));
  EXPECT_EQ(
      names_of(layers_of("    - repeat: {times: 2, layers: [{repeat: {times: 2, layers: [{relu: {name: r}}]}}]}\n")),
      (Lines{"r_1_1", "r_1_2", "r_2_1", "r_2_2"}));
  EXPECT_EQ(
      names_of(layers_of("    - repeat: {times: 2, layers: [{residual: {main: [{dense: {name: in, units: 36}}]}}]}\n")),
      (Lines{"residual_1", "residual_1.main.in", "residual_2", "residual_2.main.in"}));
  EXPECT_EQ(
      problems_of(with_layers("    - repeat: {times: 3, layers: [{dense: {}}]}\n")),
      Lines{"c.yaml:8:43: model.layers[0].repeat.layers[0].dense.units: missing; expected integer >= 1"});  // told once
  EXPECT_EQ(problems_of(with_layers("    - repeat: {times: 0, layer: []}\n")),
            (Lines{"c.yaml:8:7: model.layers[0].repeat.layers: missing",
                   "c.yaml:8:26: model.layers[0].repeat.layer: unknown key; did you mean 'layers'?"}));
  EXPECT_EQ(problems_of(with_layers("    - repeat\n")).front().substr(0, 66),
            "c.yaml:8:7: model.layers[0].repeat: expected a map of times, layer");
}

TEST(Layer, DuplicateAndBadNames) {
  EXPECT_EQ(problems_of(with_layers("    - relu: {name: dense_1}\n    - dense: {units: 3}\n")),
            Lines{"c.yaml:9:7: model.layers[1].dense: duplicate layer name 'dense_1', first at c.yaml:8:7; give one of "
                  "them another name"});
  EXPECT_EQ(problems_of(with_layers("    - relu: {name: a.b}\n")),
            Lines{"c.yaml:8:20: model.layers[0].relu.name: expected letters, digits, _ and -, found 'a.b'"});
}

TEST(Layer, Initializers) {
  const auto refusal = [](const std::string& text) {
    return problems_of(with_layers("    - dense: {units: 3, weight_init: " + text + "}\n"));
  };
  EXPECT_EQ(refusal("he_normal"), Lines{});
  EXPECT_EQ(refusal("constant"),
            Lines{"c.yaml:8:38: model.layers[0].dense.weight_init: 'constant' needs the value: {constant: 0.05}"});
  EXPECT_EQ(refusal("{zeros: 1}"),
            Lines{"c.yaml:8:39: model.layers[0].dense.weight_init: 'zeros' takes no value: write the name alone"});
  EXPECT_EQ(refusal("{normal: -1}"),
            Lines{"c.yaml:8:47: model.layers[0].dense.weight_init.normal: expected number > 0, found '-1'"});
  EXPECT_EQ(refusal("he_norm"),
            Lines{"c.yaml:8:38: model.layers[0].dense.weight_init: unknown 'he_norm'; did you mean 'he_normal'?"});
}

TEST(Layer, EveryTypeGoesRound) {
  const std::string yaml =
      "    - conv2d: {filters: 4, kernel: [3, 1], padding: [1, 0, 1, 0], dilation: 1, weight_init: {truncated_normal: "
      "0.02}, activation: silu}\n"
      "    - max_pool2d: {kernel: 2, stride: 1, padding: same}\n"
      "    - average_pool2d: {kernel: 2, stride: 1, padding: same}\n"
      "    - batch_norm: {scope: {group: 4}, momentum: 0.3}\n"
      "    - leaky_relu: {slope: 0.3}\n"
      "    - residual: {main: [{conv2d: {filters: 4, kernel: 3, padding: same}}, batch_norm]}\n"
      "    - add: {branches: {a: [tanh], b: [sigmoid, layer_norm], c: []}}\n"
      "    - concat: {branches: {a: [global_max_pool], b: [global_average_pool]}}\n"
      "    - gelu: {approximate: tanh}\n"
      "    - dropout: {rate: 0.4}\n"
      "    - reshape: {shape: [2, 4]}\n"
      "    - flatten\n"
      "    - repeat: {times: 2, layers: [{dense: {units: 6, activation: relu, bias_init: {constant: 0.1}}}]}\n";
  const Loaded first = load_quietly(with_layers(yaml));
  const Loaded second = load_quietly(first.effective_yaml);
  EXPECT_EQ(first.effective_yaml, second.effective_yaml);
  const auto a = model::build_network(first.config.model), b = model::build_network(second.config.model);
  EXPECT_EQ(model::describe(a), model::describe(b));
  ASSERT_EQ(a.params.size(), b.params.size());
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    EXPECT_EQ(a.params[i].name, b.params[i].name);
    EXPECT_EQ(a.params[i].initializer.name, b.params[i].initializer.name);
    EXPECT_EQ(a.params[i].initializer.value, b.params[i].initializer.value);
  }
}

}  // namespace
}  // namespace muster::config::testing
