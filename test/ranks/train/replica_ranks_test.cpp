// A replica of two stages with a weight tied between them: its step allocates nothing but what MPI and oneDNN do
// inside, and the start-up table's memory of messages is what their buffers grow to.
#include "ranks/ranks.hpp"
#include "unit/model/networks.hpp"

#include <muster/train/assemble.hpp>

#include "allocations.hpp"

MUSTER_RANKS(PipelineReplica, 2, 4);

namespace muster::train {
namespace {

constexpr std::int64_t positions = 6, vocabulary = 11, batch_rows = 8;

Config two_stages() {
  Config config;
  config.run.reproducible = "fast";
  config.run.accumulate = 4;
  config.parallel.pipeline = 2;
  config.data.batch = batch_rows;
  config.optimizer.kind = "adamw";
  config.optimizer.clip_norm = 1;
  config.model.input = {positions};
  config.model.layers = model::test::gpt(vocabulary, 8, 2);
  return config;
}

TEST(PipelineReplica, AStepAllocatesNothing) {
  const auto world = test::world();
  const Config config = two_stages();
  if (world->size() % 2 != 0) return;
  parallel::Grid grid(*world, config.parallel);
  Replica replica(config, links_over(config, grid, 1), 64, 1);
  replica.store->initialise(1);
  const MemoryUse use = replica.memory(0);
  EXPECT_EQ(grid.links().buffer_bytes(), 0u);
  EXPECT_NE(replica.tied, nullptr);

  dataset::Batch batch;
  batch.position = {0, 0, batch_rows};
  batch.rows = replica.plan.rows_of_replica(replica.plan.replica, batch_rows);
  const auto rows = static_cast<std::size_t>(batch.rows.size());
  std::vector<float> inputs(rows * positions);
  std::vector<std::int32_t> targets(rows * positions);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = static_cast<float>(i % vocabulary), targets[i] = static_cast<std::int32_t>((i * 5 + 1) % vocabulary);
  batch.inputs = inputs.data();
  batch.targets = targets.data();
  for (int step = 0; step < 3; ++step) replica.step->run(batch, step, 1e-3, false);
  const auto run = [&] {
    for (int step = 3; step < 8; ++step) replica.step->run(batch, step, 1e-3, false);
  };
  EXPECT_EQ(test::allocations_of(run), 0);

  // A micro-batch of each replica has 8 / replicas / 4 rows; a value of a row that crosses the cut has 6 x 8 floats.
  // Between two stages: two messages that may be unread and two that are received, one or more values in each.
  const auto full = static_cast<std::int64_t>(grid.links().buffer_bytes());
  EXPECT_EQ(use.messages, full);
  EXPECT_GT(full, 0);
  EXPECT_EQ(full % (4 * (batch_rows / replica.plan.replicas / 4) * positions * 8 * 4), 0);
  EXPECT_EQ(use.stage, grid.place().stage);
  // The arena of sums, and what the other holder sends of the embedding.
  EXPECT_EQ(use.tied, (replica.store->elements() + vocabulary * 8) * 4);
  replica.close();
}

}  // namespace
}  // namespace muster::train
