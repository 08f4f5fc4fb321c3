// Convolutions by cuDNN: planned by the real library for cards that are described to it, and given the memory that the
// plans ask for. Their values: ops_test.cpp.
#include "cuda/backend/emulated.hpp"

#include <cstdlib>

namespace muster::device::test {
namespace {

TEST(Cudnn, IsGivenWhatItsPlansAskFor) {
  if (std::getenv("CUDA_TEST_PLUGIN") != nullptr) return;  // a card does not say so, it computes something else
  const auto backend = backend_named("cuda");
  Conv2dSpec spec;
  spec.filters = 4;
  spec.kernel = {3, 3};
  OpRequest request;
  request.spec = spec;
  request.is_training = false;
  request.inputs = {{{1, 2, 9, 9}, DType::f32, nullptr}};
  const auto op = backend->make(request);
  ASSERT_TRUE(op->implementation().starts_with("cudnn"));
  Floats input(*backend, random_values(163, 1)), weight(*backend, random_values(72, 2)),
      bias(*backend, random_values(4, 3));
  Floats output(*backend, 196), too_short(*backend, 100);
  const auto expect_stop = [&](float* from, float* to, const std::string& message) {
    OpBuffers buffers;
    buffers.inputs = {from};
    buffers.params = {weight.data(), bias.data()};
    buffers.output = to;
    op->bind(buffers);
    constexpr int stopped = 134;
    EXPECT_EXIT(op->forward(0, RunContext{7, 3, 12, 40, 0}), testing::ExitedWithCode(stopped), message);
  };
  expect_stop(input.data() + 1, output.data(), "tensor 1 is not aligned to 16 bytes");
  expect_stop(input.data(), too_short.data(), "cudnnBackendExecute, tensor 3");
}

struct Convolution {
  std::string name;
  Shape input;
  std::int64_t filters, kernel, stride, padding, dilation, groups;
};

/// The library itself says so, for cards that are not there.
TEST(Cudnn, ConvolvesOnEveryCard) {
  const std::vector<Convolution> common{
      {"first layer of a small network", {64, 1, 28, 28}, 32, 3, 1, 1, 1, 1},
      {"residual block", {128, 64, 14, 14}, 64, 3, 1, 1, 1, 1},
      {"halving", {128, 64, 14, 14}, 128, 3, 2, 1, 1, 1},
      {"shortcut", {128, 64, 14, 14}, 128, 1, 2, 0, 1, 1},
      {"first layer of a large network", {32, 3, 224, 224}, 64, 7, 2, 3, 1, 1},
      {"dilated", {16, 32, 28, 28}, 32, 3, 1, 2, 2, 1},
      {"grouped", {16, 32, 28, 28}, 32, 3, 1, 1, 1, 4},
  };
  for (const char* card : {"h200", "a100", "b200"}) {
    const Setting setting("EMULATION_DEVICE", card);
    const auto backend = backend_named("cuda");
    for (const Convolution& c : common)
      for (const bool has_bias : {false, true}) {
        Conv2dSpec spec;
        spec.filters = c.filters;
        spec.kernel = {c.kernel, c.kernel};
        spec.stride = {c.stride, c.stride};
        spec.padding = {c.padding, c.padding, c.padding, c.padding};
        spec.dilation = {c.dilation, c.dilation};
        spec.groups = c.groups;
        spec.has_bias = has_bias;
        spec.activation = has_bias ? Activation::relu : Activation::none;
        OpRequest request;
        request.spec = spec;
        request.inputs = {{c.input, DType::f32, nullptr}};
        EXPECT_TRUE(backend->make(request)->implementation().starts_with("cudnn"))
            << c.name << (has_bias ? " with bias and relu on " : " on ") << card;
      }
  }
}

}  // namespace
}  // namespace muster::device::test
