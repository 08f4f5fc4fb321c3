// The gradient of whole networks against central finite differences of the loss, on every backend of this machine: ops,
// fusion, shared storage and accumulated gradients all have to be right for it to hold.
#include "unit/model/networks.hpp"
#include "unit/model/samples.hpp"

#include <gtest/gtest.h>

#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>
#include <muster/model/program.hpp>

#include <cmath>

namespace muster::model::test {
namespace {

using device::Activation;
using device::LossSpec;
using device::Pool2dSpec;

struct Trained {
  Trained(const ModelOptions& options, const std::string& kind, std::int64_t rows) : network(build_network(options)) {
    device::DeviceOptions device_options;
    device_options.kind = kind;
    device_options.threads = 1;
    backend = device::make_backend(device_options);
    ProgramOptions program_options;
    program_options.rows = rows;
    program_options.is_deterministic = true;
    program_options.bucket_elements = 7;  // many segments
    program = std::make_unique<Program>(network, *backend, program_options, std::vector<device::TensorDesc>{});
    store = std::make_unique<ParameterStore>(network, *backend, program->param_descs());
    gradients.assign(static_cast<std::size_t>(store->elements()), NAN);
    program->bind(*store, gradients);
    store->initialise(5);
    context = {3, 2, 0, rows};
    load(rows);
  }

  void load(std::int64_t rows) {
    const std::vector<float> inputs = test::random_inputs(network, rows);
    const bool is_labels = network.loss.kind == LossSpec::Kind::softmax_cross_entropy;
    if (is_labels) {
      const std::vector<std::int32_t> labels = test::labels_in_turn(network, rows);
      program->load(inputs.data(), labels.data());
    } else {
      const RandomStream stream(9, Purpose::test, 0, 0);
      std::vector<float> targets(static_cast<std::size_t>(network.output.elements() * rows));
      for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = stream.uniform(i + 100000);
      program->load(inputs.data(), targets.data());
    }
  }

  /// Mean loss over the rows.
  double forward() {
    for (std::size_t s = 0; s < program->forward_segments().size(); ++s) program->forward(s, context);
    const MicroBatchResult result = program->loss(context);
    EXPECT_TRUE(result.is_finite);
    return static_cast<double>(result.loss_units) * loss_unit / static_cast<double>(result.rows);
  }
  void backward() {
    for (std::size_t s = 0; s < program->backward_segments().size(); ++s) program->backward(s, context, [] {});
  }

  Network network;
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<Program> program;
  std::unique_ptr<ParameterStore> store;
  std::vector<float> gradients;
  device::RunContext context;
};

void check_gradients(const ModelOptions& options, const std::string& kind, std::int64_t rows, double tolerance) {
  Trained net(options, kind, rows);
  net.forward();
  net.backward();
  constexpr float h = 2e-3f;  // small, so that hardly any relu changes sides
  for (std::size_t p = 0; p < net.network.params.size(); ++p) {
    const int param = static_cast<int>(p);
    const std::vector<float> gradient = net.store->to_plain(param, net.gradients);
    const std::vector<float> start = net.store->to_plain(param, net.store->weights());
    const std::size_t stride = std::max<std::size_t>(1, start.size() / 7);
    for (std::size_t e = p % stride; e < start.size(); e += stride) {
      const auto loss_at = [&](float value) {
        std::vector<float> moved = start;
        moved[e] = value;
        net.store->from_plain(param, moved, net.store->weights());
        return net.forward();
      };
      const double slope = (loss_at(start[e] + h) - loss_at(start[e] - h)) / (2.0 * static_cast<double>(h));
      EXPECT_NEAR(gradient[e], slope, tolerance + 0.03 * std::abs(slope))
          << kind << ": " << net.network.params[p].name << " element " << e;
    }
    net.store->from_plain(param, start, net.store->weights());
  }
}

void check_everywhere(const ModelOptions& options, std::int64_t rows = 6, double tolerance = 2e-3) {
  for (const auto& entry : device::registered_backends())
    if (entry.probe().empty()) check_gradients(options, entry.name, rows, tolerance);
}

ModelOptions model(Shape input, LayerList layers, LossSpec loss = {}) { return {input, std::move(layers), loss, 0}; }

TEST(Gradients, DenseWithEveryActivation) {
  for (const auto kind :
       {Activation::leaky_relu, Activation::gelu, Activation::silu, Activation::tanh, Activation::sigmoid})
    check_everywhere(model({5}, {dense(7), activation(kind), dense(4), activation(kind), dense(3)}));
}

TEST(Gradients, ConvolutionsOfAllKinds) {
  check_everywhere(
      model({4, 9, 9}, {conv(8, 3), activation(Activation::tanh), conv(6, 3, 2), activation(Activation::silu),
                        conv(6, 3, 1, 2), activation(Activation::tanh), conv(4, 3, 1, 1, 2), flatten(), dense(3)}));
}

TEST(Gradients, FusedReluTails) {
  // A step of the difference makes some of the many relus change sides, which a slope of -1e-3 to 1e-3 shows.
  check_everywhere(model({3, 8, 8}, {conv(16, 3), relu(), conv(5, 1), relu(), flatten(), dense(9), relu(), dense(4)}),
                   6, 1e-2);
}

TEST(Gradients, Pooling) {
  check_everywhere(
      model({2, 8, 8}, {conv(16, 3), pool(Pool2dSpec::Kind::average, 2), activation(Activation::tanh), conv(5, 3),
                        pool(Pool2dSpec::Kind::max, 2), pool(Pool2dSpec::Kind::average, 0, true), dense(3)}));
}

TEST(Gradients, BatchNormOfGlobalScope) {
  check_everywhere(
      model({3, 6, 6}, {conv(16, 3, 1, 1, 1, false), batch_norm(), activation(Activation::tanh), conv(4, 3),
                        batch_norm(), flatten(), dense(5), batch_norm(), activation(Activation::tanh), dense(3)}));
}

TEST(Gradients, BatchNormOfGroups) {
  check_everywhere(
      model({3, 6, 6}, {conv(16, 3, 1, 1, 1, false), batch_norm(4), activation(Activation::silu), flatten(), dense(3)}),
      10);
}

TEST(Gradients, LayerNorm) {
  check_everywhere(
      model({3, 5, 5}, {conv(4, 3), layer(LayerNormLayer{}), activation(Activation::gelu), flatten(), dense(3)}));
}

TEST(Gradients, ResidualBlocksShareStorageSafely) {
  const auto block = [] {
    return residual({conv(16, 3, 1, 1, 1, false), batch_norm(), activation(Activation::tanh),
                     conv(16, 3, 1, 1, 1, false), batch_norm()});
  };
  check_everywhere(model(
      {3, 6, 6},
      {conv(16, 3), block(), block(), activation(Activation::tanh),
       residual({conv(8, 3, 2), activation(Activation::tanh), conv(8, 3)}, {conv(8, 1, 2)}), flatten(), dense(3)}));
}

TEST(Gradients, NestedBranchesAddAndConcat) {
  check_everywhere(
      model({4, 5, 5},
            {conv(8, 3), branches(true, {{conv(3, 1)}, {conv(5, 3), activation(Activation::tanh)}, {}}),
             branches(false, {{}, {residual({activation(Activation::tanh)}), activation(Activation::sigmoid)}, {}}),
             conv(4, 1), flatten(), dense(3)}));
}

TEST(Gradients, AnInputReadTwiceAndThriceByOneOp) {
  check_everywhere(model(
      {6}, {dense(5), branches(false, {{}, {}}), activation(Activation::tanh),
            branches(false, {{}, {activation(Activation::sigmoid)}, {}, {}}), branches(true, {{}, {}}), dense(3)}));
}

TEST(Gradients, ReshapeAndDropout) {
  check_everywhere(
      model({12}, {dense(16), activation(Activation::tanh), layer(ReshapeLayer{{Shape{4, 2, 2}}}), dropout(0.3f),
                   conv(6, 3), dropout(0.2f), activation(Activation::tanh), flatten(), dense(3)}));
}

TEST(Gradients, EveryLoss) {
  LossSpec smooth{LossSpec::Kind::softmax_cross_entropy, 0.1f};
  check_everywhere(model({5}, {dense(6), activation(Activation::tanh), dense(4)}, smooth));
  check_everywhere(
      model({5}, {dense(6), activation(Activation::tanh), dense(4)}, {LossSpec::Kind::binary_cross_entropy, 0}));
  check_everywhere(
      model({5}, {dense(6), activation(Activation::tanh), dense(4)}, {LossSpec::Kind::mean_squared_error, 0}));
}

TEST(Gradients, TransformerBlocks) {
  check_everywhere(model({6}, gpt(7, 8, 2)));
  TransformerLayer modern;
  modern.attention.heads = 4;
  modern.attention.kv_heads = 2;
  modern.attention.rotary_base = 100.0f;
  modern.attention.has_bias = modern.mlp.has_bias = false;
  modern.attention.weight = modern.mlp.weight = modern.attention.projection = modern.mlp.projection = {"normal", 0.4};
  modern.mlp.is_swiglu = modern.is_rms_norm = true;
  modern.dropout = modern.attention.dropout = 0.2f;
  LayerSpec head = dense(9);
  std::get<DenseLayer>(head.options).op.is_per_position = true;
  check_everywhere(model({5}, {layer(EmbeddingLayer{{9, 16}, {"normal", 1.0}}), layer(modern), layer(modern),
                               layer(RmsNormLayer{}), head}));
  MlpLayer mlp;
  mlp.weight = mlp.projection = {"normal", 0.5};
  AttentionLayer attention;
  attention.heads = 2;
  attention.is_causal = false;
  attention.weight = attention.projection = {"normal", 0.5};
  check_everywhere(model({4, 6}, {layer(attention), layer(mlp), flatten(), dense(3)}));
}

// A head that is tied to the embedding has one parameter; its gradient is the sum of both uses, which an untied copy of
// the network has apart.
TEST(Gradients, TiedWeightsSumTheirShares) {
  for (const char* kind : {"ref", "cpu"}) {
    Trained tied(model({6}, gpt(7, 8, 1)), kind, 4), apart(model({6}, gpt(7, 8, 1, false)), kind, 4);
    ASSERT_EQ(tied.network.params.size() + 1, apart.network.params.size());
    for (std::size_t p = 0; p < tied.network.params.size(); ++p) {
      const auto values = tied.store->to_plain(static_cast<int>(p), tied.store->weights());
      apart.store->from_plain(static_cast<int>(p), values, apart.store->weights());
      if (p == 0) apart.store->from_plain(static_cast<int>(tied.network.params.size()), values, apart.store->weights());
    }
    EXPECT_EQ(tied.forward(), apart.forward());
    tied.backward();
    apart.backward();
    const auto sum = tied.store->to_plain(0, tied.gradients);
    const auto first = apart.store->to_plain(0, apart.gradients);
    const auto second = apart.store->to_plain(static_cast<int>(tied.network.params.size()), apart.gradients);
    double largest_second = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      EXPECT_NEAR(sum[i], first[i] + second[i], 1e-6) << kind << " " << i;
      largest_second = std::max(largest_second, std::abs(static_cast<double>(second[i])));
    }
    EXPECT_GT(largest_second, 1e-2);
  }
}

TEST(Decoder, ContinuesASequenceTokenByToken) {
  TransformerLayer rotary;
  rotary.attention.heads = 2;
  rotary.attention.rotary_base = 50.0f;
  rotary.attention.weight = rotary.attention.projection = {"normal", 0.4};
  LayerList with_rotary = gpt(7, 8, 1);
  with_rotary.insert(with_rotary.begin() + 2, layer(rotary, "rotary"));
  for (const char* kind : {"ref", "cpu"})
    for (const LayerList& layers : {gpt(7, 8, 2), with_rotary}) {
      const ModelOptions options = model({6}, layers);
      Trained net(options, kind, 2);
      net.forward();
      std::vector<float> expected(static_cast<std::size_t>(2 * 6 * 7)), inputs(12);
      net.program->read_output(expected.data());
      const RandomStream stream(9, Purpose::test, 0, 0);
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(stream.below(i, 7));
      const Network decoder = build_decoder(options);
      ProgramOptions program_options;
      program_options.rows = 2;
      program_options.is_training = false;
      Program program(decoder, *net.backend, program_options, net.store->descs());
      program.bind(*net.store, {});
      for (std::int64_t t = 0; t < 6; ++t) {
        const std::vector<float> tokens{inputs[static_cast<std::size_t>(t)], inputs[static_cast<std::size_t>(6 + t)]};
        program.load(tokens.data(), nullptr);
        device::RunContext context;
        context.position = t;
        program.forward(0, context);
        std::vector<float> logits(14);
        program.read_output(logits.data());
        for (std::int64_t i = 0; i < 14; ++i)
          EXPECT_NEAR(logits[static_cast<std::size_t>(i)],
                      expected[static_cast<std::size_t>((i / 7 * 6 + t) * 7 + i % 7)], 2e-5)
              << kind << " position " << t;
      }
    }
}

TEST(Decoder, RefusesWhatCannotContinueATextToken) {
  const auto message = [](const ModelOptions& options) {
    try {
      build_decoder(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message(model({6}, {dense(3)})).find("output [positions, tokens], found [6] and [3]"), std::string::npos);
  LayerList blind = gpt(7, 8, 1);
  std::get<TransformerLayer>(blind[2].options).attention.is_causal = false;
  EXPECT_NE(message(model({6}, blind)).find("is not causal"), std::string::npos);
}

TEST(TiedWeights, AreCheckedByNameAndShape) {
  const auto message = [](LayerList layers, const char* tie) {
    std::get<DenseLayer>(layers.back().options).tied_to = tie;
    try {
      build_network(model({6}, layers));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message(gpt(7, 8, 1), "nobody").find("earlier layer with a weight, found 'nobody'"), std::string::npos);
  EXPECT_NE(message(gpt(7, 8, 1), "positions").find("its weight [7, 8] cannot be tied to that of 'positions', [6, 8]"),
            std::string::npos);
  EXPECT_EQ(message(gpt(7, 8, 1), "tokens"), "accepted");
}

// Gradients are divided by the global number of samples, not by the micro-batch's.
TEST(Gradients, AreDividedByTheGlobalCount) {
  Trained net(model({5}, {dense(6), activation(Activation::tanh), dense(4)}), "ref", 6);
  net.forward();
  net.backward();
  const std::vector<float> right = net.gradients;
  net.load(6);
  net.context.global_rows = 12;  // as if the batch were twice as large
  net.forward();
  net.backward();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::isnan(right[i]) && std::isnan(net.gradients[i])) continue;  // between the slices
    difference += std::abs(static_cast<double>(right[i]) - 2.0 * static_cast<double>(net.gradients[i]));
    size += std::abs(static_cast<double>(right[i]));
  }
  EXPECT_GT(size, 0.1);
  EXPECT_LT(difference, 1e-5 * size);
}

TEST(Program, SegmentsCoverAllGradientsOnceInOrder) {
  Trained net(model({3, 6, 6}, {conv(16, 3), batch_norm(), relu(), conv(8, 3), batch_norm(), flatten(), dense(3)}),
              "ref", 4);
  std::int64_t written = 0, announced = 0;
  for (const Segment& segment : net.program->backward_segments()) {
    EXPECT_EQ(segment.gradients.begin, written);
    written = segment.gradients.end;
    if (segment.bucket.empty()) continue;
    EXPECT_EQ(segment.bucket.begin, announced);
    announced = segment.bucket.end;
    EXPECT_EQ(announced, written);
  }
  EXPECT_EQ(written, net.store->elements());
  EXPECT_EQ(announced, net.store->elements());
  EXPECT_EQ(net.program->forward_segments().size(), 3u);  // two batch norms cut the pass
}

}  // namespace
}  // namespace muster::model::test
