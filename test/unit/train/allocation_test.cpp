// The step loop allocates nothing, oneDNN's own argument lists apart: malloc itself is counted, in the thread that
// trains, over steps of a network with every kind of op, in one and in several micro-batches.
#include <gtest/gtest.h>

#include <muster/comm/session.hpp>
#include <muster/train/assemble.hpp>

#include <dlfcn.h>
#include <execinfo.h>
#include <cstddef>
#include <cstring>

namespace {
thread_local bool is_counting = false;
thread_local long allocations = 0;
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {
/// Whether oneDNN asked for it: its execute call makes small lists of arguments, which we cannot help.
bool is_from_onednn() {
  void* frames[24];
  const int count = backtrace(frames, 24);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) != 0 && info.dli_fname && std::strstr(info.dli_fname, "libdnnl")) return true;
  }
  return false;
}
}  // namespace

// glibc's own entry, so that the library's calls are seen too. Sanitizers bring their own malloc.
extern "C" void* __libc_malloc(std::size_t);
extern "C" void* malloc(std::size_t bytes) {
  if (is_counting) {
    is_counting = false;
    if (!is_from_onednn()) ++allocations;
    is_counting = true;
  }
  return __libc_malloc(bytes);
}
#endif

namespace muster::train {
namespace {

model::LayerSpec layer(const char* name, model::LayerOptions options) { return {name, "", std::move(options), {}, {}}; }

Config everything(const std::string& mode) {
  Config config;
  config.run.reproducible = mode;
  config.parallel.grains = 4;
  config.data.batch = 16;
  config.optimizer.kind = "adamw";
  config.optimizer.clip_norm = 1;
  config.model.input = {1, 8, 8};
  model::Conv2dLayer conv;
  conv.op.filters = 16;
  conv.op.kernel = {3, 3};
  conv.is_same_padding = true;
  model::LayerSpec residual = layer("residual", model::ResidualLayer{});
  residual.branches = {{layer("inner", conv), layer("norm2", model::BatchNormLayer{})}, {}};
  config.model.layers = {layer("conv", conv),
                         layer("norm", model::BatchNormLayer{}),
                         layer("relu", model::ActivationLayer{{device::Activation::relu, 0, false}}),
                         residual,
                         layer("drop", model::DropoutLayer{{0.2f, 0}}),
                         layer("pool", model::Pool2dLayer{}),
                         layer("flat", model::FlattenLayer{}),
                         layer("dense", model::DenseLayer{{10, true, device::Activation::none}, {}, {}})};
  return config;
}

TEST(Step, AllocatesNothing) {
  for (const std::string mode : {"fast", "bitwise"}) {
    const auto session = comm::start_session({});
    const Config config = everything(mode);
    Replica replica(config, session->world(), 64, 1);
    replica.store->initialise(1);
    std::vector<float> inputs(16 * 64, 0.5f);
    std::vector<std::int32_t> labels(16, 3);
    dataset::Batch batch;
    batch.position = {0, 0, 16};
    batch.rows = {0, 16};
    batch.inputs = inputs.data();
    batch.targets = labels.data();
    for (int step = 0; step < 3; ++step) replica.step->run(batch, step, 1e-3, false);
    void* warm[4];
    backtrace(warm, 4);  // loads the unwinder, which allocates once
    allocations = 0;
    is_counting = true;
    for (int step = 3; step < 8; ++step) replica.step->run(batch, step, 1e-3, false);
    is_counting = false;
    EXPECT_EQ(allocations, 0) << mode;
    replica.close();
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Step, TheCountSeesAnAllocation) {
  allocations = 0;
  is_counting = true;
  std::vector<int>* made = new std::vector<int>(1000);
  is_counting = false;
  delete made;
  EXPECT_GE(allocations, 1);
}
#endif

}  // namespace
}  // namespace muster::train
