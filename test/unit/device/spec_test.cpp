// Shapes, parameters, names and costs of the ops, and the messages for inputs that do not fit.
#include <muster/base/error.hpp>
#include <muster/device/spec.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace muster::device {
namespace {

/// The message must hold every one of these parts.
void expect_refused(const OpSpec& spec, const std::vector<Shape>& inputs, const std::vector<std::string>& parts) {
  try {
    const Shape shape = output_shape(spec, inputs);
    ADD_FAILURE() << name_of(spec) << " accepted " << inputs[0].text() << " -> " << shape.text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks: " << part;
  }
}

Conv2dSpec conv(std::int64_t filters, std::array<std::int64_t, 2> kernel) {
  Conv2dSpec spec;
  spec.filters = filters;
  spec.kernel = kernel;
  return spec;
}

TEST(Spec, Conv2dShapes) {
  Conv2dSpec spec = conv(8, {3, 5});
  EXPECT_EQ(output_shape(spec, {{4, 7, 9}}), (Shape{8, 5, 5}));
  spec.padding = {1, 2, 0, 1};  // 7+1, 9+3
  EXPECT_EQ(output_shape(spec, {{4, 7, 9}}), (Shape{8, 6, 8}));
  spec.stride = {2, 3};  // floor(5/2)+1, floor(7/3)+1
  EXPECT_EQ(output_shape(spec, {{4, 7, 9}}), (Shape{8, 3, 3}));
  spec.dilation = {2, 1};  // 8 - 2*2 - 1 = 3: floor(3/2)+1
  EXPECT_EQ(output_shape(spec, {{4, 7, 9}}), (Shape{8, 2, 3}));
  EXPECT_EQ(output_shape(conv(1, {4, 4}), {{1, 4, 4}}), (Shape{1, 1, 1}));
}

TEST(Spec, Conv2dRefusals) {
  expect_refused(conv(8, {3, 3}), {{10}}, {"conv2d", "[channels, height, width]", "[10]", "reshape"});
  expect_refused(conv(0, {3, 3}), {{3, 8, 8}}, {"filters", "at least 1", "0"});
  expect_refused(conv(8, {5, 3}), {{3, 4, 8}}, {"5x3", "[3, 4, 8]", "padding 0,0,0,0"});
  Conv2dSpec grouped = conv(8, {1, 1});
  grouped.groups = 3;
  expect_refused(grouped, {{6, 4, 4}}, {"groups 3", "6 input channels", "8 filters"});
  grouped.groups = 0;
  expect_refused(grouped, {{6, 4, 4}}, {"groups 0"});
}

TEST(Spec, Pooling) {
  Pool2dSpec spec;
  EXPECT_EQ(output_shape(spec, {{3, 7, 6}}), (Shape{3, 3, 3}));
  spec.padding = {1, 0, 0, 1};
  EXPECT_EQ(output_shape(spec, {{3, 7, 6}}), (Shape{3, 4, 3}));
  spec.is_global = true;
  EXPECT_EQ(output_shape(spec, {{3, 7, 6}}), (Shape{3}));
  expect_refused(spec, {{3, 7}}, {"pooling", "[3, 7]"});
  spec.is_global = false;
  spec.padding = {0, 2, 0, 0};  // a window could lie in the padding alone
  expect_refused(spec, {{3, 7, 6}}, {"padding 2", "2x2"});
  spec.padding = {0, 0, 0, 0};
  expect_refused(spec, {{3, 1, 6}}, {"2x2", "[3, 1, 6]"});
}

TEST(Spec, OtherShapes) {
  EXPECT_EQ(output_shape(DenseSpec{10}, {{3, 4, 5}}), (Shape{10}));
  EXPECT_EQ(output_shape(BatchNormSpec{}, {{3, 4, 5}}), (Shape{3, 4, 5}));
  EXPECT_EQ(output_shape(LayerNormSpec{}, {{7}}), (Shape{7}));
  EXPECT_EQ(output_shape(ActivationSpec{}, {{7, 2}}), (Shape{7, 2}));
  EXPECT_EQ(output_shape(DropoutSpec{0.0f}, {{7, 2}}), (Shape{7, 2}));
  EXPECT_EQ(output_shape(AddSpec{}, {{7, 2}, {7, 2}}), (Shape{7, 2}));
  EXPECT_EQ(output_shape(ConcatSpec{}, {{1, 5, 5}, {2, 5, 5}, {4, 5, 5}}), (Shape{7, 5, 5}));
  EXPECT_EQ(output_shape(ReshapeSpec{{2, 3}}, {{6}}), (Shape{2, 3}));
}

TEST(Spec, OtherRefusals) {
  expect_refused(DenseSpec{0}, {{4}}, {"units", "at least 1", "0"});
  expect_refused(BatchNormSpec{}, {{4, 5}}, {"batch_norm", "[4, 5]"});
  BatchNormSpec residual;
  residual.has_residual = true;
  expect_refused(residual, {{4, 5, 5}, {4, 5, 6}}, {"residual", "[4, 5, 5]", "[4, 5, 6]"});
  for (const float rate : {-0.1f, 1.0f, NAN}) expect_refused(DropoutSpec{rate}, {{4}}, {"rate", "0 <= rate < 1"});
  expect_refused(AddSpec{}, {{4, 5}, {5, 4}}, {"add", "[4, 5]", "[5, 4]"});
  expect_refused(ConcatSpec{}, {{4, 5, 5}, {4, 5, 6}}, {"concat", "[4, 5, 5]", "[4, 5, 6]"});
  expect_refused(ConcatSpec{}, {{4, 5}, {4, 5, 5}}, {"concat"});
  expect_refused(ConcatSpec{}, {Shape{}}, {"scalar"});
  expect_refused(ReshapeSpec{{2, 4}}, {{6}}, {"[2, 4]", "8 elements", "[6]", "6"});
}

TEST(Spec, OptionsOutOfRange) {
  for (const std::int64_t bad : {0, -1}) {
    Conv2dSpec spec = conv(8, {3, bad});
    expect_refused(spec, {{3, 8, 8}}, {"conv2d", "kernel", "at least 1", std::to_string(bad)});
    spec = conv(8, {3, 3});
    spec.stride = {bad, 1};
    expect_refused(spec, {{3, 8, 8}}, {"stride", std::to_string(bad)});
    spec.stride = {1, 1};
    spec.dilation = {1, bad};
    expect_refused(spec, {{3, 8, 8}}, {"dilation", std::to_string(bad)});
  }
  Pool2dSpec pool;
  pool.padding = {0, 0, -1, 0};
  expect_refused(pool, {{3, 8, 8}}, {"padding", "at least 0", "-1"});
  BatchNormSpec norm;
  norm.group = -2;
  expect_refused(norm, {{3, 8, 8}}, {"group", "-2"});
  expect_refused(ReshapeSpec{{-2, -3}}, {{6}}, {"reshape", "at least 1", "[-2, -3]"});
}

TEST(Spec, CountsItsInputs) {
  BatchNormSpec residual;
  residual.has_residual = true;
  expect_refused(residual, {{4, 5, 5}}, {"batch_norm expects 2 inputs, found 1"});
  expect_refused(DenseSpec{3}, {{4}, {4}}, {"dense expects 1 input, found 2"});
  for (const OpSpec& spec : {OpSpec(AddSpec{}), OpSpec(ConcatSpec{})})
    EXPECT_THROW(output_shape(spec, {}), Error) << name_of(spec);
}

TEST(Spec, ParametersAndStates) {
  const auto text = [](const std::vector<ParamShape>& params) {
    std::string all;
    for (const ParamShape& p : params) all += p.name + p.shape.text() + " ";
    return all;
  };
  EXPECT_EQ(text(param_shapes(DenseSpec{10}, {{3, 4}})), "weight[10, 12] bias[10] ");
  EXPECT_EQ(text(param_shapes(DenseSpec{10, false}, {{3, 4}})), "weight[10, 12] ");
  Conv2dSpec grouped = conv(8, {3, 5});
  grouped.groups = 2;
  EXPECT_EQ(text(param_shapes(grouped, {{6, 9, 9}})), "weight[8, 3, 3, 5] bias[8] ");
  EXPECT_EQ(text(param_shapes(BatchNormSpec{}, {{6, 9, 9}})), "gamma[6] beta[6] ");
  EXPECT_EQ(text(state_shapes(BatchNormSpec{}, {{6, 9, 9}})), "running_mean[6] running_var[6] ");
  EXPECT_EQ(text(param_shapes(LayerNormSpec{}, {{6, 9}})), "gamma[6, 9] beta[6, 9] ");
  EXPECT_EQ(text(param_shapes(AddSpec{}, {{6}})) + text(state_shapes(DenseSpec{1}, {{6}})), "");
}

TEST(Spec, FlopsCountTwoPerMultiplyAdd) {
  EXPECT_EQ(forward_flops(DenseSpec{10}, {{3, 4}}), 2.0 * 10 * 12);
  Conv2dSpec grouped = conv(8, {3, 5});
  grouped.groups = 2;
  EXPECT_EQ(forward_flops(grouped, {{6, 9, 9}}), 2.0 * (8 * 7 * 5) * (3 * 3 * 5));
  EXPECT_EQ(forward_flops(Pool2dSpec{}, {{6, 9, 9}}), 0.0);
}

TEST(Spec, SequencesOfTokens) {
  EXPECT_EQ(output_shape(EmbeddingSpec{7, 3}, {{5}}), (Shape{5, 3}));
  expect_refused(EmbeddingSpec{7, 3}, {{5, 2}}, {"token ids [positions]", "[5, 2]"});
  expect_refused(EmbeddingSpec{0, 3}, {{5}}, {"1 <= vocabulary", "0 and 3"});
  expect_refused(EmbeddingSpec{(1 << 24) + 1, 3}, {{5}}, {"16777216"});
  EXPECT_EQ(output_shape(PositionalEmbeddingSpec{5}, {{5, 2}}), (Shape{5, 2}));
  expect_refused(PositionalEmbeddingSpec{4}, {{5, 2}}, {"length 4", "5 positions"});
  expect_refused(RotarySpec{2, 3}, {{5, 6}}, {"even number of features", "2 of 3"});
  expect_refused(RotarySpec{2, 4}, {{5, 6}}, {"2 heads of 4 features do not fit", "[5, 6]"});
  expect_refused(RotarySpec{1, 4, 1.0f}, {{5, 6}}, {"base", "1"});
  EXPECT_EQ(output_shape(DenseSpec{3, true, Activation::none, true}, {{4, 5, 6}}), (Shape{4, 5, 3}));
  EXPECT_EQ(param_shapes(DenseSpec{3, true, Activation::none, true}, {{4, 5, 6}})[0].shape, (Shape{3, 6}));
  EXPECT_EQ(param_shapes(LayerNormSpec{1e-5f, true}, {{4, 6}})[1].shape, Shape{6});
  EXPECT_EQ(param_shapes(RmsNormSpec{}, {{4, 6}})[0].shape, Shape{6});
  EXPECT_EQ(output_shape(SwigluSpec{}, {{4, 6}}), (Shape{4, 3}));
  expect_refused(SwigluSpec{}, {{4, 5}}, {"even last extent", "[4, 5]"});
}

TEST(Spec, Attention) {
  AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 3;
  EXPECT_EQ(output_shape(spec, {{5, 24}}), (Shape{5, 12}));
  EXPECT_EQ(forward_flops(spec, {{5, 24}}), 4.0 * 15 * 12);  // 15 pairs, two products over 12 features
  spec.is_causal = false;
  EXPECT_EQ(forward_flops(spec, {{5, 24}}), 4.0 * 25 * 12);
  expect_refused(spec, {{5, 23}}, {"need 24 in all", "[5, 23]"});
  expect_refused(spec, {{5}}, {"[positions, features]", "[5]"});
  spec.cache = 8;
  expect_refused(spec, {{1, 24}}, {"cache of 8", "not causal"});
  spec.is_causal = true;
  expect_refused(spec, {{9, 24}}, {"cache of 8", "[9, 24]"});
  spec.cache = 0;
  spec.kv_heads = 3;
  expect_refused(spec, {{5, 30}}, {"must divide", "3 and 4"});
  spec.kv_heads = 2;
  spec.dropout = 1;
  expect_refused(spec, {{5, 24}}, {"0 <= dropout < 1"});
}

TEST(Spec, Names) {
  Pool2dSpec pool;
  EXPECT_EQ(name_of(OpSpec(pool)), "max_pool");
  pool.is_global = true;
  pool.kind = Pool2dSpec::Kind::average;
  EXPECT_EQ(name_of(OpSpec(pool)), "global_average_pool");
  EXPECT_EQ(name_of(OpSpec(ActivationSpec{Activation::silu})), "silu");
  EXPECT_EQ(name_of(OpSpec(Conv2dSpec{})), "conv2d");
}

}  // namespace
}  // namespace muster::device
