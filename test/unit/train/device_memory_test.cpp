// Training, evaluation state and checkpoints on a backend whose memory the host cannot touch leave the bits of the same
// ops on host memory: nothing above the device layer follows a pointer of a backend's memory.
#include "unit/message_of.hpp"
#include "unit/train/sealed_backend.hpp"

#include <gtest/gtest.h>

#include <muster/comm/session.hpp>
#include <muster/train/assemble.hpp>
#include <muster/train/state.hpp>

namespace muster::train {
using test::message_of;

namespace {

model::LayerSpec layer(const char* name, model::LayerOptions options) { return {name, "", std::move(options), {}, {}}; }

/// Two-phase and deferred statistics, a value with two readers, an op that draws random numbers, a tail batch.
Config small_network(const std::string& device, const std::string& mode, const std::string& optimizer) {
  Config config;
  config.run.reproducible = mode;
  config.run.seed = 7;
  config.run.accumulate = 2;
  config.parallel.grains = 3;
  config.device.kind = device;
  config.data.batch = 6;
  config.optimizer.kind = optimizer;
  config.optimizer.weight_decay = 0.01;
  config.optimizer.clip_norm = 0.5;
  config.model.input = {2, 4, 4};
  model::Conv2dLayer conv;
  conv.op.filters = 3;
  conv.op.kernel = {3, 3};
  conv.is_same_padding = true;
  model::LayerSpec residual = layer("residual", model::ResidualLayer{});
  residual.branches = {{layer("inner", conv), layer("norm_inner", model::BatchNormLayer{})}, {}};
  model::BatchNormLayer grouped;
  grouped.op.group = 2;
  config.model.layers = {layer("conv", conv),
                         layer("norm", grouped),
                         layer("relu", model::ActivationLayer{{device::Activation::relu, 0, false}}),
                         residual,
                         layer("drop", model::DropoutLayer{{0.2f, 0}}),
                         layer("flat", model::FlattenLayer{}),
                         layer("dense", model::DenseLayer{{5, true, device::Activation::none}, {}, {}})};
  config.model.top_k = 2;
  return config;
}

struct Trained {
  CheckpointState state;
  std::vector<std::int64_t> sums;  // loss units, correct, top-k of every step
};

/// Ten samples: a full batch of 6 and a tail of 4, three epochs.
Trained train(const Config& config) {
  const auto session = comm::start_session({});
  Replica replica(config, session->world(), 10, 1);
  replica.store->initialise(config.run.seed);
  Trained trained;
  for (int step = 0; step < 6; ++step) {
    const std::int64_t rows = step % 2 == 0 ? 6 : 4;
    std::vector<float> inputs(static_cast<std::size_t>(rows * 32));
    std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(step) * 11) % 29) / 14.0f - 1.0f;
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<std::int32_t>((i * 3 + static_cast<std::size_t>(step)) % 5);
    dataset::Batch batch;
    batch.position = {0, 0, rows};
    batch.rows = {0, rows};
    batch.inputs = inputs.data();
    batch.targets = labels.data();
    const StepResult result = replica.step->run(batch, step, 0.05, false);
    EXPECT_TRUE(result.is_finite);
    trained.sums.insert(trained.sums.end(), {result.sums.loss_units, result.sums.correct, result.sums.top_k_correct});
  }
  EXPECT_TRUE(replica.store->are_weights_finite());
  trained.state = gather_state(replica);
  replica.close();
  return trained;
}

void expect_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name) << what;
    EXPECT_EQ(a[i].values, b[i].values) << what << " " << a[i].name;
  }
}

TEST(DeviceMemory, TrainsToTheBitsOfHostMemory) {
  for (const std::string mode : {"bitwise", "fast"})
    for (const std::string optimizer : {"sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", "lars"}) {
      const std::string what = mode + " " + optimizer;
      const Trained host = train(small_network("ref", mode, optimizer));
      const Trained sealed = train(small_network("sealed", mode, optimizer));
      EXPECT_EQ(host.sums, sealed.sums) << what;
      expect_equal(host.state.weights, sealed.state.weights, what);
      expect_equal(host.state.optimizer, sealed.state.optimizer, what);
      ASSERT_GT(host.state.weights.size(), 8u);
    }
}

TEST(DeviceMemory, ACheckpointGoesInAndOut) {
  const Config config = small_network("sealed", "fast", "adam");
  const CheckpointState saved = train(config).state;
  const auto session = comm::start_session({});
  Replica other(config, session->world(), 10, 1);
  restore_state(saved, other);
  const CheckpointState again = gather_state(other);
  expect_equal(saved.weights, again.weights, "weights");
  expect_equal(saved.optimizer, again.optimizer, "optimizer");
  other.close();
}

TEST(DeviceMemory, FindsAWeightThatIsNotANumber) {
  const auto session = comm::start_session({});
  Replica replica(small_network("sealed", "fast", "sgd"), session->world(), 10, 1);
  replica.store->initialise(1);
  EXPECT_TRUE(replica.store->are_weights_finite());
  const std::vector<float> bad{1, 2, std::numeric_limits<float>::quiet_NaN(), 4, 5};
  for (std::size_t p = 0; p < replica.network.params.size(); ++p)
    if (replica.network.params[p].name == "dense.bias")
      replica.store->from_plain(static_cast<int>(p), bad, replica.store->weights());
  EXPECT_FALSE(replica.store->are_weights_finite());
  replica.close();
}

TEST(DeviceMemory, RefusesWhatItCannotDo) {
  const auto session = comm::start_session({});
  EXPECT_EQ(message_of([&] { Replica(small_network("sealed", "fast", "lamb"), session->world(), 10, 1); }),
            "optimizer: sealed has no lamb; choose another or another device.kind");
  Config sharded = small_network("sealed", "fast", "adam");
  sharded.parallel.shard = "optimizer";
  EXPECT_EQ(message_of([&] { Replica(sharded, session->world(), 10, 1); }),
            "parallel.shard: optimizer needs device.kind: cpu, found sealed; use none");
  Config servers = small_network("sealed", "fast", "sgd");
  servers.parallel.strategy = "parameter_server";
  EXPECT_EQ(
      message_of([&] { Replica(servers, session->world(), 10, 1); }),
      "device.kind: with parallel.strategy: parameter_server workers and servers compute on the CPU, found sealed; "
      "use cpu, or mirrored or multi_worker_mirrored");
}

TEST(DeviceMemory, TheSealHolds) {
  SealedBackend backend;
  const auto buffer = backend.allocate(64);
  EXPECT_DEATH(*static_cast<volatile float*>(buffer->data()) = 1.0f, "");
  float value = 3, back = 0;
  backend.copy_in(buffer->data(), &value, sizeof(value));
  EXPECT_DEATH(back = *static_cast<volatile float*>(buffer->data()), "");
  backend.copy_out(&back, buffer->data(), sizeof(back));
  EXPECT_EQ(back, 3);
}

}  // namespace
}  // namespace muster::train
