// device.tune on cpu: kernels may change, layouts and (to rounding) results may not, and deterministic requests take no
// part.
#include "device/cpu/format.hpp"

#include "cpu_runner.hpp"

namespace muster::device::test {
namespace {

Case convolution(bool is_deterministic) {
  Conv2dSpec spec;
  spec.filters = 32;
  spec.kernel = {3, 3};
  spec.padding = {1, 1, 1, 1};
  spec.activation = Activation::relu;
  Case c{"conv", spec, {{4, 32, 16, 16}}};
  c.is_deterministic = is_deterministic;
  return c;
}

std::unique_ptr<Backend> tuned_backend() {
  DeviceOptions options;
  options.kind = "cpu";
  options.threads = 1;
  options.tune = true;
  return make_backend(options);
}

TEST(CpuTuning, ChangesNeitherLayoutsNorResults) {
  const Case c = convolution(false);
  const TensorDesc input = cpu::tensor_in(c.inputs[0], cpu::Format::nChw16c);
  const auto plain = backend_named("cpu");
  const auto tuned = tuned_backend();
  Runner usual(*plain, c, {input}), chosen(*tuned, c, {input});
  EXPECT_TRUE(usual.op().output().same_layout(chosen.op().output()));
  ASSERT_EQ(usual.op().params().size(), chosen.op().params().size());
  for (std::size_t i = 0; i < usual.op().params().size(); ++i)
    EXPECT_TRUE(usual.op().params()[i].same_layout(chosen.op().params()[i])) << i;
  // Winograd's transforms cost a few bits (Lavin and Gray 2016, section 5).
  expect_equal(chosen.run(), usual.run(), 2e-4, "tuned convolution");
}

TEST(CpuTuning, LeavesDeterministicRequestsAlone) {
  const Case c = convolution(true);
  const TensorDesc input = cpu::tensor_in(c.inputs[0], cpu::Format::nChw16c);
  const auto plain = backend_named("cpu");
  const auto tuned = tuned_backend();
  Runner usual(*plain, c, {input}), chosen(*tuned, c, {input});
  const Result a = usual.run(), b = chosen.run();
  EXPECT_EQ(a.implementation, b.implementation);
  EXPECT_EQ(a.raw_output, b.raw_output);
  EXPECT_EQ(a.input_grads, b.input_grads);
  EXPECT_EQ(a.param_grads, b.param_grads);
}

}  // namespace
}  // namespace muster::device::test
