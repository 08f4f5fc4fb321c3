// Every op of the cpu backend against ref: in every input layout, with parameters in its own layouts and in plain ones,
// on one and two threads, for odd sizes, one row and sizes with channel padding.
#include "device/cpu/format.hpp"

#include "cpu_runner.hpp"

namespace muster::device::test {
namespace {

using cpu::Format;
using cpu::tensor_in;

std::vector<TensorDesc> layouts(const Case& c, Format first, Format others) {
  std::vector<TensorDesc> result;
  for (std::size_t k = 0; k < c.inputs.size(); ++k) result.push_back(tensor_in(c.inputs[k], k == 0 ? first : others));
  return result;
}

std::vector<TensorDesc> plain_params(const Case& c) {
  std::vector<Shape> samples;
  for (const Shape& s : c.inputs) samples.push_back(Shape(std::vector<std::int64_t>(s.begin() + 1, s.end())));
  std::vector<TensorDesc> result;
  for (const ParamShape& p : param_shapes(c.spec, samples)) result.push_back({p.shape, DType::f32, nullptr});
  return result;
}

/// Compares in all layouts (images only have several), with both kinds of parameters.
void compare(Case c, double tolerance = 2e-5) {
  const auto ref = backend_named("ref");
  const Result expected = Runner(*ref, c, layouts(c, Format::plain, Format::plain)).run();
  const bool is_image = c.inputs[0].rank() == 4;
  const std::vector<Format> formats =
      is_image ? std::vector{Format::plain, Format::nhwc, Format::nChw8c, Format::nChw16c} : std::vector{Format::plain};
  for (int threads : {1, 2}) {
    c.threads = threads;
    const auto cpu = backend_named("cpu", threads);
    for (Format format : formats) {
      const std::string what =
          c.name + " format " + std::to_string(static_cast<int>(format)) + " threads " + std::to_string(threads);
      expect_equal(Runner(*cpu, c, layouts(c, format, format)).run(), expected, tolerance, what);
      if (c.inputs.size() > 1)
        expect_equal(Runner(*cpu, c, layouts(c, format, Format::plain)).run(), expected, tolerance,
                     what + ", others plain");
      if (!plain_params(c).empty())
        expect_equal(Runner(*cpu, c, layouts(c, format, format), plain_params(c)).run(), expected, tolerance,
                     what + ", plain parameters");
    }
  }
}

void compare_both_modes(Case c, double tolerance = 2e-5) {
  compare(c, tolerance);
  c.is_training = false;
  c.name += " inference";
  compare(c, tolerance);
}

TEST(CpuAgainstRef, Dense) {
  compare_both_modes({"dense 5x7->3", DenseSpec{3, true, Activation::none}, {{5, 7}}});
  compare_both_modes({"dense relu 33x70->21", DenseSpec{21, true, Activation::relu}, {{33, 70}}});
  compare_both_modes({"dense one row", DenseSpec{10, true, Activation::relu}, {{1, 64}}});
  compare({"dense without bias", DenseSpec{16, false, Activation::none}, {{4, 48}}});
  compare({"dense to one", DenseSpec{1, true, Activation::none}, {{9, 5}}});
  compare({"dense from one", DenseSpec{6, true, Activation::relu}, {{9, 1}}});
  compare({"dense 128x256->512", DenseSpec{512, true, Activation::relu}, {{128, 256}}});
  compare({"dense of 3-D", DenseSpec{6, true, Activation::none}, {{4, 5, 6}}});
}

TEST(CpuAgainstRef, DenseOverImagesKeepsTheirPlainOrder) {
  compare_both_modes({"dense 4x20x3x5->6", DenseSpec{6, true, Activation::relu}, {{4, 20, 3, 5}}});
  compare({"dense 3x16x2x2->32", DenseSpec{32, false, Activation::none}, {{3, 16, 2, 2}}});
  compare({"dense 2x1x4x4->5", DenseSpec{5, true, Activation::none}, {{2, 1, 4, 4}}});
}

Conv2dSpec conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1, std::int64_t padding = 0) {
  Conv2dSpec spec;
  spec.filters = filters;
  spec.kernel = {kernel, kernel};
  spec.stride = {stride, stride};
  spec.padding = {padding, padding, padding, padding};
  return spec;
}

TEST(CpuAgainstRef, Conv2d) {
  Conv2dSpec relu = conv(32, 3, 1, 1);
  relu.activation = Activation::relu;
  compare_both_modes({"conv 1->32 relu", relu, {{3, 1, 9, 8}}});
  compare({"conv 3->16", conv(16, 3, 1, 1), {{2, 3, 8, 8}}});
  compare({"conv 16->16", conv(16, 3, 1, 1), {{2, 16, 7, 9}}});
  compare({"conv 10->7, padded channels", conv(7, 3, 1, 1), {{2, 10, 6, 5}}});
  compare({"conv 1x1 stride 2", conv(32, 1, 2), {{2, 16, 8, 8}}});
  compare({"conv stride 2", conv(32, 3, 2, 1), {{2, 16, 8, 8}}});
  compare({"conv 2x2", conv(8, 2), {{1, 4, 5, 5}}});
  Conv2dSpec plain = conv(16, 3);
  plain.has_bias = false;
  compare({"conv without bias", plain, {{1, 16, 3, 3}}});
}

TEST(CpuAgainstRef, Conv2dOfUnevenWindows) {
  Conv2dSpec uneven = conv(8, 3, 2);
  uneven.kernel = {3, 2};
  uneven.padding = {0, 1, 1, 0};
  compare({"conv uneven padding", uneven, {{2, 5, 7, 8}}});
  Conv2dSpec dilated = conv(16, 3, 1, 2);
  dilated.dilation = {2, 2};
  compare({"conv dilated", dilated, {{2, 16, 8, 8}}});
  Conv2dSpec grouped = conv(6, 3, 1, 1);
  grouped.groups = 2;
  compare({"conv grouped", grouped, {{2, 8, 6, 6}}});
  Conv2dSpec depthwise = conv(16, 3, 1, 1);
  depthwise.groups = 16;
  depthwise.activation = Activation::relu;
  compare({"conv depthwise", depthwise, {{2, 16, 6, 6}}});
}

// The library's plain loops are hundreds of times slower; it falls back on them where a format it is given suits none
// of its kernels (one input channel, AVX2: the gradient of the weights).
TEST(CpuAgainstRef, NoPassOfACommonConvolutionRunsOnPlainLoops) {
  const auto cpu = backend_named("cpu");
  for (const std::int64_t channels : {1, 3, 16, 32, 64})
    for (const std::int64_t filters : {16, 32, 64})
      for (const std::int64_t stride : {1, 2}) {
        const Case c{"", conv(filters, 3, stride, 1), {{8, channels, 14, 14}}};
        Runner runner(*cpu, c, layouts(c, Format::plain, Format::plain));
        EXPECT_EQ(runner.op().implementation().find("ref"), std::string::npos)
            << channels << " -> " << filters << " stride " << stride << ": " << runner.op().implementation();
      }
}

Pool2dSpec pool(Pool2dSpec::Kind kind, std::int64_t kernel, std::int64_t stride,
                std::array<std::int64_t, 4> padding = {0, 0, 0, 0}) {
  Pool2dSpec spec;
  spec.kind = kind;
  spec.kernel = {kernel, kernel};
  spec.stride = {stride, stride};
  spec.padding = padding;
  return spec;
}

TEST(CpuAgainstRef, Pool2d) {
  for (auto kind : {Pool2dSpec::Kind::max, Pool2dSpec::Kind::average}) {
    const std::string name = kind == Pool2dSpec::Kind::max ? "max pool " : "average pool ";
    compare_both_modes({name + "2", pool(kind, 2, 2), {{3, 16, 6, 8}}});
    compare({name + "2 of odd images", pool(kind, 2, 2), {{2, 5, 7, 5}}});
    compare({name + "3 stride 2 padded", pool(kind, 3, 2, {1, 1, 1, 1}), {{2, 20, 8, 7}}});
    compare({name + "3 padded unevenly", pool(kind, 3, 2, {0, 1, 1, 0}), {{2, 16, 7, 7}}});
    compare({name + "3 stride 1", pool(kind, 3, 1), {{1, 3, 5, 5}}});
    Pool2dSpec global;
    global.kind = kind;
    global.is_global = true;
    compare_both_modes({"global " + name, global, {{3, 20, 4, 5}}});
    compare({"global " + name + "16", global, {{2, 16, 8, 8}}});
  }
}

TEST(CpuAgainstRef, MaxPoolTiesGoToTheFirst) {
  Case ties{"ties", pool(Pool2dSpec::Kind::max, 3, 2, {1, 1, 1, 1}), {{2, 16, 8, 8}}};
  ties.quantum = 2.0f;
  compare(ties);
  ties.spec = pool(Pool2dSpec::Kind::max, 2, 2);
  compare(ties);
}

TEST(CpuAgainstRef, BatchNorm) {
  for (std::int64_t group : {0, 3})
    for (auto activation : {Activation::none, Activation::relu})
      for (bool has_residual : {false, true}) {
        BatchNormSpec spec;
        spec.group = group;
        spec.activation = activation;
        spec.has_residual = has_residual;
        const auto make = [&](Shape shape) {
          Case c{fmt::format("batch norm {} group {} relu {} residual {}", shape.text(), group,
                             activation == Activation::relu, has_residual),
                 spec,
                 {shape}};
          if (has_residual) c.inputs.push_back(shape);
          c.other_share = group == 0 ? 0.5 : 0.0;  // as if other ranks had half as many rows again
          c.context.global_rows = shape[0] * 3 / 2 + (group == 0 ? 0 : 1);
          return c;
        };
        compare(make({8, 16, 5, 7}));
        compare(make({4, 20, 3, 3}));
        compare(make({8, 5}));
        compare(make({2, 1, 4, 4}));
        compare(make({10, 32, 13, 11}));
      }
}

TEST(CpuAgainstRef, BatchNormOutsideTrainingUsesRunningValues) {
  BatchNormSpec spec;
  spec.activation = Activation::relu;
  spec.has_residual = true;
  Case c{"batch norm inference", spec, {{3, 20, 4, 4}, {3, 20, 4, 4}}};
  c.is_training = false;
  compare(c);
  c.inputs = {{3, 7}, {3, 7}};
  compare(c);
}

TEST(CpuAgainstRef, LayerNorm) {
  compare_both_modes({"layer norm [5, 33]", LayerNormSpec{}, {{5, 33}}});
  compare({"layer norm [1, 8]", LayerNormSpec{}, {{1, 8}}});
  compare({"layer norm [3, 20, 4, 4]", LayerNormSpec{}, {{3, 20, 4, 4}}});
  compare({"layer norm [64, 512]", LayerNormSpec{}, {{64, 512}}});
}

TEST(CpuAgainstRef, Activations) {
  for (auto kind : {Activation::none, Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::silu,
                    Activation::tanh, Activation::sigmoid}) {
    ActivationSpec spec;
    spec.kind = kind;
    spec.slope = 0.2f;
    const std::string name = "activation " + std::to_string(static_cast<int>(kind));
    compare_both_modes({name, spec, {{3, 10, 5, 3}}}, 1e-6);
    compare({name + " 2-D", spec, {{7, 3001}}}, 1e-6);
    spec.is_gelu_tanh = true;
    if (kind == Activation::gelu) compare({name + " tanh", spec, {{4, 33}}}, 1e-6);
  }
}

TEST(CpuAgainstRef, Dropout) {
  for (float rate : {0.0f, 0.3f, 0.9f}) {
    compare_both_modes({"dropout images", DropoutSpec{rate, 2}, {{3, 20, 5, 3}}}, 1e-6);
    compare({"dropout [5, 33]", DropoutSpec{rate, 0}, {{5, 33}}}, 1e-6);
    compare({"dropout [64, 1000]", DropoutSpec{rate, 1}, {{64, 1000}}}, 1e-6);
    compare({"dropout [2, 16, 8, 8]", DropoutSpec{rate, 0}, {{2, 16, 8, 8}}}, 1e-6);
  }
}

TEST(CpuAgainstRef, AddConcatReshape) {
  for (auto activation : {Activation::none, Activation::relu}) {
    compare_both_modes({"add of two", AddSpec{activation}, {{3, 20, 4, 5}, {3, 20, 4, 5}}}, 1e-6);
    compare({"add of three", AddSpec{activation}, {{2, 7}, {2, 7}, {2, 7}}}, 1e-6);
    compare({"add of one", AddSpec{activation}, {{2, 7}}}, 1e-6);
  }
  compare_both_modes({"concat images", ConcatSpec{}, {{2, 16, 3, 4}, {2, 5, 3, 4}, {2, 32, 3, 4}}}, 1e-6);
  compare_both_modes({"concat blocks", ConcatSpec{}, {{3, 16, 4, 4}, {3, 32, 4, 4}}}, 1e-6);
  compare({"concat [n, c]", ConcatSpec{}, {{2, 3}, {2, 4}}}, 1e-6);
  compare_both_modes({"reshape", ReshapeSpec{{30, 4}}, {{2, 10, 3, 4}}}, 1e-6);
  compare({"reshape to images", ReshapeSpec{{2, 3, 5}}, {{4, 30}}}, 1e-6);
}

TEST(CpuAgainstRef, PerPosition) {
  compare_both_modes({"dense per position", DenseSpec{6, true, Activation::none, true}, {{3, 5, 7}}});
  compare({"dense relu per position", DenseSpec{33, false, Activation::relu, true}, {{2, 17, 16}}});
  compare_both_modes({"layer norm per position", LayerNormSpec{1e-5f, true}, {{3, 5, 33}}});
  compare_both_modes({"rms norm", RmsNormSpec{}, {{3, 5, 33}}});
  compare({"rms norm of one position", RmsNormSpec{}, {{1, 1, 3}}});
  compare({"rms norm [64, 512]", RmsNormSpec{}, {{64, 512}}});
  compare_both_modes({"swiglu", SwigluSpec{}, {{2, 3, 34}}});
  compare({"swiglu [64, 600]", SwigluSpec{}, {{64, 600}}});
}

TEST(CpuAgainstRef, Positions) {
  compare_both_modes({"positional embedding", PositionalEmbeddingSpec{9}, {{3, 7, 5}}});
  compare({"positional embedding, wide", PositionalEmbeddingSpec{33}, {{2, 33, 600}}});
  compare_both_modes({"rotary", RotarySpec{2, 6}, {{3, 7, 17}}});
  compare({"rotary, long", RotarySpec{4, 32, 500.0f}, {{2, 130, 128}}});
  Case tokens{"embedding", EmbeddingSpec{11, 5}, {{3, 7}}};
  tokens.tokens = 11;
  compare_both_modes(tokens);
  tokens = {"embedding, large", EmbeddingSpec{999, 130}, {{4, 65}}};
  tokens.tokens = 999;
  compare(tokens);
}

AttentionSpec attention(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, bool is_causal = true,
                        float dropout = 0) {
  AttentionSpec spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.is_causal = is_causal;
  spec.dropout = dropout;
  spec.stream = 3;
  return spec;
}

TEST(CpuAgainstRef, Attention) {
  for (const bool is_causal : {true, false})
    for (const float dropout : {0.0f, 0.3f}) {
      const std::string name = fmt::format("attention, causal {}, dropout {}", is_causal, dropout);
      compare_both_modes({name, attention(2, 2, 4, is_causal, dropout), {{3, 7, 24}}});
      compare({name + ", one position", attention(2, 1, 8, is_causal, dropout), {{2, 1, 32}}});
      compare({name + ", groups", attention(6, 2, 5, is_causal, dropout), {{2, 9, 50}}});
      compare({name + ", several blocks", attention(2, 1, 16, is_causal, dropout), {{1, 131, 64}}});
      compare({name + ", whole blocks", attention(1, 1, 8, is_causal, dropout), {{2, 128, 24}}});
    }
}

TEST(CpuAgainstRef, AttentionGivesTheSameBitsForAnyThreads) {
  Case c{"attention", attention(4, 2, 8, true, 0.2f), {{3, 70, 64}}};
  std::vector<Result> results;
  for (const int threads : {1, 2, 3}) {
    c.threads = threads;
    const auto cpu = backend_named("cpu", threads);
    results.push_back(Runner(*cpu, c, layouts(c, Format::plain, Format::plain)).run());
    EXPECT_EQ(results.back().output, results.front().output) << threads;
    EXPECT_EQ(results.back().input_grads, results.front().input_grads) << threads;
  }
}

}  // namespace
}  // namespace muster::device::test
