// What the `cuda` backend promises beside its ops: memory, copies, updates, refusals.
#include "cuda/backend/emulated.hpp"

#include "unit/message_of.hpp"

#include <muster/device/plugin.hpp>
#include <muster/optim/optimizer.hpp>

namespace muster::device::test {
namespace {

using muster::test::message_of;

TEST(CudaBackend, IsOpenedThroughTheRegistry) {
  const auto backend = backend_named("cuda");
  EXPECT_EQ(backend->name(), "cuda");
  EXPECT_FALSE(backend->has_host_memory());
  EXPECT_NE(backend->describe().find("emulated GPU, 4.0 GiB, CUDA 1"), std::string::npos) << backend->describe();
  EXPECT_EQ(backend_named("auto")->name(), "cuda");
  EXPECT_TRUE(has_cuda_plugin());
}

TEST(CudaBackend, AutoFallsBackWhereThereIsNoCard) {
  const Setting none("EMULATION_DEVICES", "0");
  EXPECT_EQ(backend_named("auto")->name(), "cpu");
  EXPECT_EQ(message_of([] { backend_named("cuda"); }),
            "device.kind: cuda cannot be used here (cuda: no usable GPU (no CUDA-capable device is detected)); `muster "
            "info` lists what can");
}

TEST(CudaBackend, MemoryIsZeroedAndCopiesGoBothWays) {
  for (const std::string schedule : {"eager", "lazy", "ahead"}) {
    const Setting setting("EMULATION_SCHEDULE", schedule);
    const auto backend = backend_named("cuda");
    for (const std::int64_t count : {1, 5, 1000, (9 << 20) / 4 + 3}) {  // the last in three pieces of staging memory
      const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
      const auto fresh = backend->allocate(bytes);
      Values host(static_cast<std::size_t>(count), 7);
      backend->copy_out(host.data(), fresh->data(), bytes);
      EXPECT_EQ(host, Values(host.size(), 0)) << count;
      for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 1000003);
      Floats there(*backend, host), copied(*backend, count);
      backend->copy(copied.data(), there.data(), bytes);
      backend->accumulate(there.data(), copied.data(), {{count}, DType::f32, nullptr});
      EXPECT_EQ(copied.read(), host) << count;
      const Values sums = there.read();
      for (std::size_t i = 0; i < host.size(); i += 97) ASSERT_EQ(sums[i], 2 * host[i]) << i;
      backend->fill_zero(there.data(), bytes);
      EXPECT_EQ(there.read(), Values(host.size(), 0)) << count;
    }
  }
}

TEST(CudaBackend, SaysWhatIsLeftWhenMemoryRunsOut) {
  const auto backend = backend_named("cuda");
  const Setting small("EMULATION_MEMORY_MIB", "64");
  EXPECT_EQ(
      message_of([&] { backend->allocate(std::size_t{1} << 30); }),
      "out of device memory: 1.0 GiB more were asked for, 32 MiB of 64 MiB are left; use a smaller data.batch or more "
      "ranks");
}

/// Three slices of different decay with padding between, two steps.
std::vector<Values> update_twice(Backend& backend, const optim::OptimizerOptions& options) {
  const auto optimizer = optim::make_optimizer(options, backend);
  const std::vector<optim::ParamRun> runs{
      {"a.weight", {0, 30}, true}, {"b.weight", {32, 40}, true}, {"b.bias", {48, 49}, false}};
  const std::int64_t count = 64;
  Values weights = random_values(count, 1), grads = random_values(count, 2);
  for (std::size_t i = 0; i < weights.size(); ++i)  // padding is zero
    if ((i >= 30 && i < 32) || (i >= 40 && i < 48) || i >= 49) weights[i] = grads[i] = 0;
  Floats w(backend, weights), g(backend, grads);
  std::vector<std::unique_ptr<Floats>> slots;
  std::vector<std::span<float>> state;
  for (std::size_t s = 0; s < optimizer->slots().size(); ++s) {
    slots.push_back(std::make_unique<Floats>(backend, Values(weights.size(), 0)));
    state.push_back(slots.back()->span());
  }
  for (int step = 1; step <= 2; ++step) optimizer->update({0.1, step, 0.5, 1}, w.span(), g.span(), state, runs);
  std::vector<Values> result{w.read()};
  for (auto& slot : slots) result.push_back(slot->read());
  return result;
}

TEST(CudaUpdates, GiveTheValuesOfTheHost) {
  const auto cuda = backend_named("cuda"), ref = backend_named("ref");
  for (const std::string schedule : {"eager", "lazy", "ahead"}) {
    const Setting setting("EMULATION_SCHEDULE", schedule);
    for (const std::string kind : {"sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"}) {
      optim::OptimizerOptions options;
      options.kind = kind;
      options.weight_decay = 0.3;
      const auto found = update_twice(*cuda, options), expected = update_twice(*ref, options);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t k = 0; k < found.size(); ++k)
        expect_near(found[k], expected[k], 1e-6f, fmt::format("{} {} arena {}", kind, schedule, k));
    }
  }
}

TEST(CudaUpdates, RefuseLarsAndLamb) {
  const auto cuda = backend_named("cuda");
  for (const std::string kind : {"lars", "lamb"}) {
    optim::OptimizerOptions options;
    options.kind = kind;
    EXPECT_EQ(message_of([&] { optim::make_optimizer(options, *cuda); }),
              "optimizer: cuda has no " + kind + "; choose another or another device.kind");
  }
}

}  // namespace
}  // namespace muster::device::test
