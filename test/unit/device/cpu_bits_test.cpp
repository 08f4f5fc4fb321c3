// The cpu backend's bits: equal in every run, wherever the buffers lie, and on a second instance of the op. What
// follows from it: a resumed run repeats the steps it lost exactly.
#include "device/cpu/format.hpp"

#include "cpu_runner.hpp"

#include <muster/base/error.hpp>

namespace muster::device::test {
namespace {

using cpu::Format;

void expect_same_bits(const Case& c, Format format) {
  const auto cpu = backend_named("cpu", c.threads);
  std::vector<TensorDesc> layouts;
  for (const Shape& shape : c.inputs) layouts.push_back(cpu::tensor_in(shape, format));
  const Result first = Runner(*cpu, c, layouts).run();
  for (std::size_t shift : {0, 1, 5, 64}) {
    Runner other(*cpu, c, layouts, {}, shift);
    const Result found = other.run();
    const std::string what = c.name + " moved by " + std::to_string(shift);
    EXPECT_EQ(found.raw_output, first.raw_output) << what;
    EXPECT_EQ(found.input_grads, first.input_grads) << what;
    EXPECT_EQ(found.param_grads, first.param_grads) << what;
    EXPECT_EQ(found.forward_statistics, first.forward_statistics) << what;
    EXPECT_EQ(found.backward_statistics, first.backward_statistics) << what;
    EXPECT_EQ(found.state, first.state) << what;
  }
}

void expect_same_bits(Case c) {
  for (int threads : {1, 2}) {
    c.threads = threads;
    expect_same_bits(c, Format::plain);
    if (c.inputs[0].rank() == 4) expect_same_bits(c, Format::nChw16c);
  }
}

TEST(CpuBits, DoNotDependOnAddresses) {
  Conv2dSpec conv;
  conv.filters = 20;
  conv.kernel = {3, 3};
  conv.padding = {1, 1, 1, 1};
  conv.activation = Activation::relu;
  expect_same_bits({"conv", conv, {{5, 16, 9, 9}}});
  expect_same_bits({"dense", DenseSpec{37, true, Activation::relu}, {{33, 129}}});
  expect_same_bits({"dense over images", DenseSpec{10, true, Activation::none}, {{6, 20, 5, 5}}});
  expect_same_bits({"max pool", Pool2dSpec{}, {{3, 20, 6, 6}}});
  BatchNormSpec norm;
  norm.activation = Activation::relu;
  expect_same_bits({"batch norm", norm, {{9, 20, 17, 15}}});
  expect_same_bits({"batch norm of vectors", norm, {{130, 200}}});
  norm.group = 3;
  expect_same_bits({"batch norm in groups", norm, {{9, 16, 17, 15}}});
  expect_same_bits({"layer norm", LayerNormSpec{}, {{65, 301}}});
  ActivationSpec gelu;
  gelu.kind = Activation::gelu;
  expect_same_bits({"gelu", gelu, {{65, 301}}});
  expect_same_bits({"dropout", DropoutSpec{0.4f, 1}, {{65, 301}}});
}

// One thread or two: elementwise ops and pooling have no sums that could differ.
TEST(CpuBits, OfOpsWithoutSumsDoNotDependOnThreads) {
  ActivationSpec silu;
  silu.kind = Activation::silu;
  for (Case c : {Case{"silu", silu, {{67, 1001}}}, Case{"dropout", DropoutSpec{0.4f, 1}, {{64, 1000}}},
                 Case{"max pool", Pool2dSpec{}, {{8, 32, 16, 16}}}}) {
    std::vector<Result> results;
    for (int threads : {1, 2}) {
      c.threads = threads;
      const auto cpu = backend_named("cpu", threads);
      results.push_back(Runner(*cpu, c, {cpu::tensor_in(c.inputs[0], Format::nChw16c)}).run());
    }
    EXPECT_EQ(results[0].raw_output, results[1].raw_output) << c.name;
    EXPECT_EQ(results[0].input_grads, results[1].input_grads) << c.name;
  }
}

TEST(CpuBackend, RefusesOtherTypesAndEmptyBatches) {
  const auto cpu = backend_named("cpu");
  OpRequest request;
  request.spec = AddSpec{};
  request.inputs = {{Shape{2, 3}, DType::bf16, nullptr}};
  EXPECT_EQ(cpu->why_unsupported(request), "cpu works on float32 tensors, found bfloat16");
  request.inputs = {{Shape{0, 3}, DType::f32, nullptr}};
  EXPECT_EQ(cpu->why_unsupported(request), "cpu ops need at least one row");
  try {
    cpu->make(request);
    FAIL() << "made an op for an empty batch";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST(CpuBackend, PlainCopiesAndSumsCoverPadding) {
  const auto cpu = backend_named("cpu");
  const TensorDesc desc = cpu::tensor_in({2, 5, 3, 3}, Format::nChw16c);
  EXPECT_EQ(desc.bytes(), 2u * 16 * 9 * sizeof(float));
  EXPECT_EQ(desc.layout->describe(), "aBcd16b");
  EXPECT_FALSE(desc.same_layout(cpu::tensor_in({2, 5, 3, 3}, Format::nChw8c)));
  EXPECT_TRUE(desc.same_layout(cpu::tensor_in({2, 5, 3, 3}, Format::nChw16c)));
  const Values values = random_values(desc.shape.elements(), 1);
  Guarded a(desc.bytes(), 0), b(desc.bytes(), 1);
  cpu->from_plain(desc, values.data(), a.data());
  cpu->from_plain(desc, values.data(), b.data());
  cpu->accumulate(a.data(), b.data(), desc);
  Values sum(values.size());
  cpu->to_plain(desc, a.data(), sum.data());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(sum[i], 2 * values[i]);
  EXPECT_EQ(static_cast<const float*>(a.data())[5], 0.0f) << "padding of channel 5";
}

}  // namespace
}  // namespace muster::device::test
