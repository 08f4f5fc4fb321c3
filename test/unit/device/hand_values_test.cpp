// Every op on every backend against values worked out by hand (the sums stand beside them). Small integers, so that the
// expected numbers are exact. One `Hand` row is one case.
#include "hand_case.hpp"

namespace muster::device::test {
namespace {

TEST(HandValues, Dense) {
  // y = [1 2; 3 4] W^T + b with W = [1 0; 0 1; 1 -1], b = [10 20 30]
  check({"dense",
         DenseSpec{3, true, Activation::none},
         {{2, 2}},
         {{1, 2, 3, 4}},
         {{1, 0, 0, 1, 1, -1}, {10, 20, 30}},
         {11, 22, 29, 13, 24, 29},
         {1, 0, 2, 0, 3, 1},
         {{1 + 2, 0 - 2, 0 + 1, 3 - 1}},              // dy W
         {{1, 2, 9, 12, 2 + 3, 4 + 4}, {1, 3, 3}}});  // dy^T x and the column sums of dy
  // relu: the second unit is -2 and 0: neither lets a gradient through
  check({"dense relu",
         DenseSpec{2, false, Activation::relu},
         {{2, 1}},
         {{1, 0}},
         {{3, -2}},
         {3, 0, 0, 0},
         {5, 7, 11, 13},
         {{15, 0}},
         {{5, 0}}});
}

TEST(HandValues, Conv2dStrideAndUnevenPadding) {
  // A 2x3 image, one zero row above and one zero column on the right: 3x4. Kernel 2x2, stride 1x2: 2x2 windows.
  //   0 0 0 0        weight 1 2      row 0: 3*1+4*2 = 11      3*3 + 4*0 = 9
  //   1 2 3 0               3 4      row 1: 1+4+12+20 = 37    3 + 18 = 21      and the bias 100
  //   4 5 6 0
  Conv2dSpec spec;
  spec.filters = 1;
  spec.kernel = {2, 2};
  spec.stride = {1, 2};
  spec.padding = {1, 0, 0, 1};
  check({"conv",
         spec,
         {{1, 1, 2, 3}},
         {{1, 2, 3, 4, 5, 6}},
         {{1, 2, 3, 4}, {100}},
         {111, 109, 137, 121},
         {1, 10, 2, 20},
         {{3 * 1 + 2 * 1, 4 * 1 + 2 * 2, 30 + 20, 2 * 3, 2 * 4, 60}},
         {{2 * 1 + 20 * 3, 2 * 2, 1 + 30 + 8 + 120, 2 + 10}, {33}}});
}

TEST(HandValues, Conv2dDilationAndGroups) {
  // Two channels, two groups, 1x3 kernels [1 10 100] and [1 1 1] with dilation 2 over five columns: y = one column.
  Conv2dSpec spec;
  spec.filters = 2;
  spec.kernel = {1, 3};
  spec.dilation = {1, 2};
  spec.groups = 2;
  spec.has_bias = false;
  check({"conv",
         spec,
         {{1, 2, 1, 5}},
         {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
         {{1, 10, 100, 1, 1, 1}},
         {531, 24},
         {2, 3},
         {{2, 0, 20, 0, 200, 3, 0, 3, 0, 3}},
         {{2, 6, 10, 18, 24, 30}}});
}

TEST(HandValues, Pooling) {
  Pool2dSpec spec;
  spec.kernel = {2, 2};
  spec.stride = {1, 2};
  // 2x3 image, window 2x2, stride 1x2: one row, one column (the third column is left out); all four equal: first wins
  check({"ties", spec, {{1, 1, 2, 3}}, {{7, 7, 9, 7, 7, 9}}, {}, {7}, {5}, {{5, 0, 0, 0, 0, 0}}, {}});
  spec.padding = {1, 1, 0, 0};
  spec.stride = {2, 2};
  // padded to 3x4: windows {1}, {2 3} in the first row of windows; negative values: padding must not win as zero
  check(
      {"max padded", spec, {{1, 1, 2, 3}}, {{-1, -2, -3, -4, -5, -6}}, {}, {-1, -2}, {3, 4}, {{3, 4, 0, 0, 0, 0}}, {}});
  spec.kind = Pool2dSpec::Kind::average;
  check({"average padded",
         spec,
         {{1, 1, 2, 3}},
         {{-1, -2, -3, -4, -5, -6}},
         {},
         {-1, -2.5f},
         {3, 4},
         {{3, 2, 2, 0, 0, 0}},
         {}});
  Pool2dSpec global;
  global.is_global = true;
  global.kind = Pool2dSpec::Kind::average;
  check({"global average", global, {{1, 2, 1, 2}}, {{1, 3, 10, 30}}, {}, {2, 20}, {4, 8}, {{2, 2, 4, 4}}, {}});
  global.kind = Pool2dSpec::Kind::max;
  check({"global max", global, {{1, 2, 1, 2}}, {{1, 3, 30, 10}}, {}, {3, 30}, {4, 8}, {{0, 4, 8, 0}}, {}});
}

TEST(HandValues, BatchNorm) {
  // Channel 0: 1 and 5: mean 3, variance 4. Channel 1: -1 and 1: mean 0, variance 1. epsilon 0, gamma [2 3], beta [1
  // 0].
  BatchNormSpec spec;
  spec.epsilon = 0;
  // d gamma = sum dy xhat; d beta = sum dy; dx = gamma/deviation (dy - mean(dy) - xhat mean(dy xhat)) = 0 for two rows
  check({"batch norm",
         spec,
         {{2, 2}},
         {{1, -1, 5, 1}},
         {{2, 3}, {1, 0}},
         {-1, -3, 3, 3},
         {1, 10, 3, 20},
         {{0, 0, 0, 0}},
         {{-1 + 3, -10 + 20}, {4, 30}}});
  // The residual is added before the relu: -1 + 0, -3 + 4, 3 - 5, 3 + 1; only elements 1 and 3 let the gradient through
  spec.has_residual = true;
  spec.activation = Activation::relu;
  check({"residual",
         spec,
         {{2, 2}, {2, 2}},
         {{1, -1, 5, 1}, {0, 4, -5, 1}},
         {{2, 3}, {1, 0}},
         {0, 1, 0, 4},
         {1, 10, 3, 20},
         {{0, 0, 0, 0}, {0, 10, 0, 20}},
         {{0, -10 + 20}, {0, 30}}});
}

TEST(HandValues, LayerNorm) {
  // Row [1 3]: mean 2, variance 1, xhat [-1 1]. Row [5 5]: xhat 0 for any epsilon.
  LayerNormSpec spec;
  spec.epsilon = 1e-12f;
  check({"layer norm",
         spec,
         {{2, 2}},
         {{1, 3, 5, 5}},
         {{2, 10}, {1, 1}},
         {-1, 11, 1, 1},
         {1, 2, 0, 0},
         {{0, 0, 0, 0}},
         {{-1, 2}, {1, 2}}},
        1e-5);
}

TEST(HandValues, Activations) {
  const auto row = [](Activation kind, Values y, Values dx, bool is_tanh = false) {
    ActivationSpec spec{kind, 0.25f, is_tanh};
    check({name_of(OpSpec(spec)), spec, {{1, 3}}, {{-1, 0, 2}}, {}, std::move(y), {2, 2, 2}, {std::move(dx)}, {}},
          2e-6);
  };
  row(Activation::none, {-1, 0, 2}, {2, 2, 2});
  row(Activation::relu, {0, 0, 2}, {0, 0, 2});
  row(Activation::leaky_relu, {-0.25f, 0, 2}, {0.5f, 0.5f, 2});
  // from tables of the logistic, tanh and normal distribution functions
  row(Activation::sigmoid, {0.26894142f, 0.5f, 0.88079708f}, {0.39322387f, 0.5f, 0.20998717f});
  row(Activation::tanh, {-0.76159416f, 0, 0.96402758f}, {0.83994868f, 2, 0.14130165f});
  row(Activation::silu, {-0.26894142f, 0, 1.76159416f}, {0.14465899f, 1, 2.18156847f});
  row(Activation::gelu, {-0.15865525f, 0, 1.95449974f}, {-0.16663094f, 1, 2.17046360f});
}

TEST(HandValues, AddConcatReshape) {
  check({"add",
         AddSpec{},
         {{1, 3}, {1, 3}},
         {{1, 2, 3}, {10, -20, 30}},
         {},
         {11, -18, 33},
         {1, 2, 3},
         {{1, 2, 3}, {1, 2, 3}},
         {}});
  check({"add relu",
         AddSpec{Activation::relu},
         {{1, 3}, {1, 3}},
         {{1, 2, 3}, {10, -20, -3}},
         {},
         {11, 0, 0},
         {1, 2, 3},
         {{1, 0, 0}, {1, 0, 0}},
         {}});
  check({"concat",
         ConcatSpec{},
         {{2, 1}, {2, 2}},
         {{1, 4}, {2, 3, 5, 6}},
         {},
         {1, 2, 3, 4, 5, 6},
         {1, 2, 3, 4, 5, 6},
         {{1, 4}, {2, 3, 5, 6}},
         {}});
  check({"reshape",
         ReshapeSpec{{3, 1, 2}},
         {{1, 6}},
         {{1, 2, 3, 4, 5, 6}},
         {},
         {1, 2, 3, 4, 5, 6},
         {6, 5, 4, 3, 2, 1},
         {{6, 5, 4, 3, 2, 1}},
         {}});
}

TEST(HandValues, RefKeepsNan) {
  const auto ref = backend_named("ref");
  std::vector<OpSpec> specs{DenseSpec{4, true, Activation::relu}, AddSpec{Activation::relu}, LayerNormSpec{}};
  BatchNormSpec norm;
  norm.activation = Activation::relu;
  specs.push_back(norm);
  for (auto kind : {Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::silu, Activation::tanh,
                    Activation::sigmoid})
    specs.push_back(ActivationSpec{kind});
  const auto has_nan = [&](const OpSpec& spec, const Shape& shape, std::size_t at) {
    OpRun run(*ref, spec, {shape});
    Values x = random_values(shape.elements(), 1);
    x[at] = NAN;
    run.set_input(x);
    for (std::size_t i = 0; i < run.param_shapes().size(); ++i)
      run.set_param(i, random_values(run.param_shapes()[i].elements(), 5));
    const Values y = run.forward();
    return std::any_of(y.begin(), y.end(), [](float v) { return std::isnan(v); });
  };
  for (const OpSpec& spec : specs) EXPECT_TRUE(has_nan(spec, {3, 4}, 5)) << name_of(spec);
  for (const std::size_t at : {0, 1, 2, 3}) EXPECT_TRUE(has_nan(Pool2dSpec{}, {1, 1, 2, 2}, at)) << at;
}

}  // namespace
}  // namespace muster::device::test
