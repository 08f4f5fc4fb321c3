// The step loop allocates nothing, oneDNN's own argument lists apart: malloc itself is counted, in the thread that
// trains, over steps of a network with every kind of op, in one and in several micro-batches.
#include <gtest/gtest.h>

#include <muster/comm/session.hpp>
#include <muster/train/assemble.hpp>

#include "allocations.hpp"

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
    const auto run = [&] {
      for (int step = 3; step < 8; ++step) replica.step->run(batch, step, 1e-3, false);
    };
    EXPECT_EQ(test::allocations_of(run), 0) << mode;
    replica.close();
  }
}

#if MUSTER_COUNTS_ALLOCATIONS
TEST(Step, TheCountSeesAnAllocation) {
  EXPECT_GE(test::allocations_of([] { delete new std::vector<int>(1000); }), 1);
}
#endif

}  // namespace
}  // namespace muster::train
