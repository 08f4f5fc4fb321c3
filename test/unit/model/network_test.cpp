// Networks: shapes, names, fusion, padding, parameters and the messages about layers that do not fit.
#include "unit/model/networks.hpp"

#include <gtest/gtest.h>

#include <muster/base/error.hpp>

#include <cmath>

namespace muster::model::test {
namespace {

using device::Pool2dSpec;

Network build(Shape input, LayerList layers) { return build_network({input, std::move(layers), {}, 0}); }

std::string error_of(Shape input, LayerList layers) {
  try {
    build(input, std::move(layers));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

TEST(Network, ShapesFollowTheLayers) {
  const Network network =
      build({1, 28, 28}, {conv(32, 3), pool(Pool2dSpec::Kind::max, 2), conv(64, 3, 2), flatten(), dense(10)});
  ASSERT_EQ(network.nodes.size(), 4u);  // flatten is folded into dense
  EXPECT_EQ(network.nodes[0].output, (Shape{32, 28, 28}));
  EXPECT_EQ(network.nodes[1].output, (Shape{32, 14, 14}));
  EXPECT_EQ(network.nodes[2].output, (Shape{64, 7, 7}));
  EXPECT_EQ(network.output, (Shape{10}));
  // 32*9+32 + 64*32*9+64 + 10*3136+10
  EXPECT_EQ(network.parameter_count(), 320 + 18496 + 31370);
  // 2 FLOP per multiply-add: 28*28*32*9, 7*7*64*32*9, 3136*10
  EXPECT_DOUBLE_EQ(network.forward_flops(), 2.0 * (225792 + 903168 + 31360));
}

TEST(Network, SamePaddingPutsTheOddRowBelow) {
  // Keras: 28 with kernel 3 and stride 2 gives 14 and one row of padding in all, below.
  const Network network = build({1, 28, 28}, {conv(4, 3, 2), flatten(), dense(2)});
  const auto& spec = std::get<device::Conv2dSpec>(network.nodes[0].spec);
  EXPECT_EQ(network.nodes[0].output, (Shape{4, 14, 14}));
  EXPECT_EQ(spec.padding, (std::array<std::int64_t, 4>{0, 0, 1, 1}));
}

TEST(Network, ReluJoinsItsProducerOnlyWhereNobodyElseReadsIt) {
  const Network joined = build({2, 4, 4}, {conv(4, 3), relu(), flatten(), dense(2)});
  EXPECT_EQ(joined.nodes.size(), 2u);
  EXPECT_EQ(std::get<device::Conv2dSpec>(joined.nodes[0].spec).activation, device::Activation::relu);
  // The convolution's value is also the shortcut: the relu must stay an op of its own.
  const Network kept = build({4, 4, 4}, {conv(4, 3), residual({relu(), conv(4, 3)}), flatten(), dense(2)});
  EXPECT_EQ(std::get<device::Conv2dSpec>(kept.nodes[0].spec).activation, device::Activation::none);
}

TEST(Network, ResidualTailBecomesOneBatchNorm) {
  const Network network =
      build({4, 4, 4}, {conv(4, 3), residual({conv(4, 3), batch_norm()}), relu(), flatten(), dense(2)});
  ASSERT_EQ(network.nodes.size(), 4u);
  const auto& norm = std::get<device::BatchNormSpec>(network.nodes[2].spec);
  EXPECT_TRUE(norm.has_residual);
  EXPECT_EQ(norm.activation, device::Activation::relu);
  EXPECT_EQ(network.nodes[2].inputs, (std::vector<int>{1, 0}));
  EXPECT_TRUE(network.has_global_statistics());
}

TEST(Network, GroupsOfBatchNormsGiveTheUnitOfCutting) {
  EXPECT_EQ(build({4}, {dense(4), batch_norm(4), dense(3), batch_norm(6), dense(2)}).batch_norm_group(), 12);
  EXPECT_EQ(build({4}, {dense(4), batch_norm(), dense(2)}).batch_norm_group(), 1);
}

TEST(Network, MessagesNameLayerPlaceAndShapes) {
  LayerSpec wrong = conv(4, 3);
  wrong.name = "third";
  const std::string text = error_of({1, 8, 8}, {conv(4, 3), flatten(), wrong, dense(2)});
  EXPECT_NE(text.find("test.yaml:1:1"), std::string::npos) << text;
  EXPECT_NE(text.find("'third'"), std::string::npos) << text;
  EXPECT_NE(text.find("[256]"), std::string::npos) << text;
  EXPECT_NE(error_of({1, 8, 8}, {residual({conv(3, 3)}), flatten(), dense(2)}).find("[3, 8, 8] and [1, 8, 8]"),
            std::string::npos);
  EXPECT_NE(error_of({4}, {dense(1)}).find("at least 2"), std::string::npos);
  EXPECT_NE(error_of({4}, {}).find("at least one layer"), std::string::npos);
  EXPECT_NE(error_of({6}, {layer(ReshapeLayer{{Shape{4}}}), dense(2)}).find("6"), std::string::npos);
}

TEST(Initialise, BoundsAndMomentsAreThoseOfTheNames) {
  const auto draw = [](const std::string& name, double value = 0) {
    ParamInfo param{"x", {200, 300}, {name, value}, 300, 200};
    std::vector<float> values(60000);
    initialise(param, 4, 17, values);
    double sum = 0, squares = 0, largest = 0;
    for (float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
      largest = std::max(largest, std::abs(static_cast<double>(v)));
    }
    EXPECT_NEAR(sum / 60000, 0, 4 * std::sqrt(squares / 60000 / 60000)) << name;
    return std::pair{std::sqrt(squares / 60000), largest};
  };
  const auto expect_uniform = [&](const std::string& name, double bound) {
    const auto [deviation, largest] = draw(name);
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.999 * bound) << name;
    EXPECT_NEAR(deviation, bound / std::sqrt(3.0), 0.01 * bound) << name;
  };
  expect_uniform("default", 1 / std::sqrt(300.0));
  expect_uniform("glorot_uniform", std::sqrt(6.0 / 500));
  expect_uniform("he_uniform", std::sqrt(6.0 / 300));
  expect_uniform("lecun_uniform", std::sqrt(3.0 / 300));
  EXPECT_NEAR(draw("he_normal").first, std::sqrt(2.0 / 300), 1e-3);
  EXPECT_NEAR(draw("glorot_normal").first, std::sqrt(2.0 / 500), 1e-3);
  EXPECT_LE(draw("truncated_normal", 1.0).second, 2.0);
  ParamInfo ones{"x", {3}, {"ones", 0}, 1, 1};
  std::vector<float> values(3);
  initialise(ones, 0, 1, values);
  EXPECT_EQ(values, (std::vector<float>{1, 1, 1}));
}

TEST(Initialise, DependsOnSeedAndParameterOnly) {
  ParamInfo param{"x", {50}, {"he_normal", 0}, 10, 10};
  std::vector<float> a(50), b(50), other_seed(50), other_param(50);
  initialise(param, 1, 3, a);
  initialise(param, 1, 3, b);
  initialise(param, 1, 4, other_seed);
  initialise(param, 2, 3, other_param);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other_seed);
  EXPECT_NE(a, other_param);
}

}  // namespace
}  // namespace muster::model::test
