// A tiny GPT-2 against test/golden/gpt2.safetensors, which test/golden/gpt2.py writes with PyTorch: logits, loss and
// every gradient, through the names and orders of Hugging Face's files; and the way back. Then drawing tokens.
#include "unit/message_of.hpp"

#include <gtest/gtest.h>

#include <muster/base/error.hpp>
#include <muster/model/program.hpp>
#include <muster/train/generate.hpp>
#include <muster/train/gpt2.hpp>
#include <muster/train/state.hpp>

#include <cstdlib>
#include <functional>

namespace muster::train {
namespace {

std::vector<NamedTensor> golden() {
  const char* source = std::getenv("MUSTER_SOURCE");
  return read_safetensors(std::filesystem::path(source ? source : ".") / "test/golden/gpt2.safetensors");
}

/// What a file of weights has: the golden ones without the results beside them.
std::vector<NamedTensor> golden_weights() {
  std::vector<NamedTensor> weights = golden();
  std::erase_if(weights, [](const NamedTensor& tensor) { return tensor.name.starts_with("golden."); });
  return weights;
}

const NamedTensor& named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no tensor " + name);
}

model::ModelOptions tiny() {
  using namespace model;
  const auto layer = [](LayerOptions options, const char* name) {
    return LayerSpec{name, "test.yaml:1:1", std::move(options), {}, {}};
  };
  TransformerLayer block;
  block.attention.heads = 2;
  const DenseLayer head{{13, false, device::Activation::none, true}, {}, {}, "tokens"};
  return {{5},
          {layer(EmbeddingLayer{{13, 8}, {}}, "tokens"), layer(PositionalEmbeddingLayer{}, "positions"),
           layer(block, "block_1"), layer(block, "block_2"), layer(LayerNormLayer{{1e-5f, true}}, "norm"),
           layer(head, "head")},
          {},
          0,
          ""};
}

void expect_close(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 1e-3;
  for (float v : expected) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5 * largest) << what << " " << i;
}

void check_on(const std::string& kind) {
  SCOPED_TRACE(kind);
  device::DeviceOptions device;
  device.kind = kind;
  device.threads = 1;
  const auto backend = device::make_backend(device);
  const model::Network network = model::build_network(tiny());
  model::ProgramOptions options;
  options.rows = 2;
  model::Program program(network, *backend, options, {});
  model::ParameterStore store(network, *backend, program.param_descs());
  std::vector<float> gradients(static_cast<std::size_t>(store.elements()));
  program.bind(store, gradients);
  const std::vector<NamedTensor> expected = golden();
  CheckpointState state;
  state.weights = from_gpt2(network, golden_weights());
  restore_weights(state, network, store);

  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t t = 0; t < 5; ++t) {
      inputs.push_back(named(expected, "golden.tokens").values[n * 6 + t]);
      targets.push_back(static_cast<std::int32_t>(named(expected, "golden.tokens").values[n * 6 + t + 1]));
    }
  program.load(inputs.data(), targets.data());
  const device::RunContext context{0, 0, 0, 2};
  program.forward(0, context);
  std::vector<float> logits(2 * 5 * 13);
  program.read_output(logits.data());
  expect_close(logits, named(expected, "golden.logits").values, "logits");
  const model::MicroBatchResult result = program.loss(context);
  EXPECT_NEAR(static_cast<double>(result.loss_units) * model::loss_unit / 2, named(expected, "golden.loss").values[0],
              2e-6);
  for (std::size_t s = 0; s < program.backward_segments().size(); ++s) program.backward(s, context, [] {});

  std::vector<NamedTensor> weights, grads;
  for (std::size_t p = 0; p < network.params.size(); ++p) {
    const auto& param = network.params[p];
    weights.push_back({param.name, param.shape, store.to_plain(static_cast<int>(p), store.weights())});
    grads.push_back({param.name, param.shape, store.to_plain(static_cast<int>(p), gradients)});
  }
  weights = to_gpt2(network, weights);
  grads = to_gpt2(network, grads);
  EXPECT_EQ(weights.size(), 2u + 2 * 12 + 2);
  for (const NamedTensor& weight : weights) {
    EXPECT_EQ(weight.values, named(expected, weight.name).values) << weight.name;
    EXPECT_EQ(weight.shape, named(expected, weight.name).shape) << weight.name;
  }
  for (const NamedTensor& grad : grads)
    expect_close(grad.values, named(expected, "golden.grad." + grad.name).values, grad.name);
}

TEST(Gpt2, EqualsTheGoldenFileOnRef) { check_on("ref"); }
TEST(Gpt2, EqualsTheGoldenFileOnCpu) { check_on("cpu"); }

TEST(Gpt2, SaysWhatDoesNotFit) {
  const model::Network network = model::build_network(tiny());
  std::vector<NamedTensor> tensors = golden_weights();
  EXPECT_TRUE(is_gpt2(tensors));
  for (NamedTensor& tensor : tensors) tensor.name = "transformer." + tensor.name;  // the other spelling
  EXPECT_TRUE(is_gpt2(tensors));
  EXPECT_EQ(from_gpt2(network, tensors).size(), network.params.size());
  for (NamedTensor& tensor : tensors)
    if (tensor.name == "transformer.h.1.attn.c_attn.weight") tensor.shape = {24, 8};
  EXPECT_EQ(test::message_of([&] { from_gpt2(network, tensors); }),
            "expected the tensor 'h.1.attn.c_attn.weight' with shape [8, 24] for 'block_2.attention.qkv.weight', found "
            "[24, 8]");
  EXPECT_EQ(test::message_of([&] { from_gpt2(network, {}); }),
            "expected the tensor 'wte.weight' for 'tokens.weight', found none");
  model::ModelOptions other = tiny();
  other.layers.insert(other.layers.begin() + 4, other.layers[4]);
  other.layers[4].name = "second";
  const model::Network two_norms = model::build_network(other);
  EXPECT_EQ(test::message_of([&] { from_gpt2(two_norms, golden_weights()); }),
            "test.yaml:1:1: layer 'norm': GPT-2 has a dense layer of 13 units here, the network layer_norm");
}

TEST(Gpt2, LeavesNoTensorBehind) {
  const model::Network network = model::build_network(tiny());
  std::vector<NamedTensor> tensors = golden_weights();
  tensors.push_back({"h.0.attn.bias", {1, 1, 5, 5}, std::vector<float>(25)});
  tensors.push_back({"transformer.h.1.attn.masked_bias", {1}, {-1e4f}});
  tensors.push_back({"lm_head.weight", {13, 8}, named(tensors, "wte.weight").values});
  EXPECT_EQ(from_gpt2(network, tensors).size(), network.params.size());
  tensors.back().values[7] += 1;
  EXPECT_EQ(test::message_of([&] { from_gpt2(network, tensors); }),
            "'lm_head.weight' differs from 'wte.weight', and the network ties its head to the embedding");
  tensors.back() = {"h.2.ln_1.weight", {8}, std::vector<float>(8)};  // a third block
  EXPECT_EQ(test::message_of([&] { from_gpt2(network, tensors); }),
            "the file holds 'h.2.ln_1.weight', which the network does not have");
}

/// The message for the tiny network with another second block.
std::string refusal(const std::function<void(model::TransformerLayer&)>& change) {
  model::ModelOptions options = tiny();
  change(std::get<model::TransformerLayer>(options.layers[3].options));
  const model::Network network = model::build_network(options);
  const std::string on_import = test::message_of([&] { from_gpt2(network, golden_weights()); });
  EXPECT_EQ(test::message_of([&] { to_gpt2(network, {}); }), on_import);
  return on_import;
}

TEST(Gpt2, RefusesWhatComputesSomethingElse) {
  const auto says = [](const std::string& layer, const std::string& rest) {
    return "test.yaml:1:1: layer 'block_2" + layer + "': GPT-2 has " + rest;
  };
  EXPECT_EQ(refusal([](auto& b) { b.attention.is_causal = false; }),
            says(".attention", "causal attention here, the network one that sees all positions"));
  EXPECT_EQ(refusal([](auto& b) { b.attention.kv_heads = 1; }),
            says(".attention", "as many kv_heads as heads, 2, here, the network 1"));
  EXPECT_EQ(refusal([](auto& b) { b.attention.rotary_base = 10000; }),
            says(".attention.rotary", "no rotary positions here, the network such"));
  EXPECT_EQ(refusal([](auto& b) { b.epsilon = 1e-6f; }), says(".norm_1", "epsilon 1e-05 here, the network 1e-06"));
  EXPECT_EQ(refusal([](auto& b) { b.is_rms_norm = true; }), says(".norm_1", "a layer_norm here, the network rms_norm"));
  EXPECT_EQ(refusal([](auto& b) { b.mlp.is_gelu_tanh = false; }),
            says(".mlp.gelu", "gelu with approximate: tanh here, the network the exact one"));
  EXPECT_EQ(refusal([](auto& b) { b.attention.has_bias = false; }),
            says(".attention.qkv", "24 units with bias here, the network 24 units without bias"));
  EXPECT_EQ(refusal([](auto& b) { b.mlp.has_bias = false; }),
            says(".mlp.up", "32 units with bias here, the network 32 units without bias"));
  EXPECT_EQ(refusal([](auto& b) { b.mlp.hidden = 24; }),
            says(".mlp.up", "32 units with bias here, the network 24 units with bias"));
  EXPECT_EQ(refusal([](auto& b) {
              b.mlp.is_swiglu = true;
              b.mlp.hidden = 16;
            }),
            says(".mlp.swiglu", "gelu here, the network swiglu"));
}

TEST(DrawToken, FollowsTheDistribution) {
  const std::vector<float> logits{0.0f, 1.0986123f, 0.0f, -50.0f};  // weights 1 3 1 0: 3 first, then 0, then 2
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.0), 1);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.59), 1);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.61), 0);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.79), 0);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.81), 2);
  EXPECT_EQ(draw_token(logits, 0.0, 0, 0.99), 1);
  EXPECT_EQ(draw_token(logits, 1.0, 1, 0.99), 1);
  EXPECT_EQ(draw_token(logits, 1.0, 2, 0.74), 1);  // weights 3 and 1
  EXPECT_EQ(draw_token(logits, 1.0, 2, 0.76), 0);
  EXPECT_EQ(draw_token(logits, 0.5, 2, 0.89), 1);  // weights 9 and 1
  EXPECT_EQ(draw_token(logits, 0.5, 2, 0.91), 0);
}

}  // namespace
}  // namespace muster::train
