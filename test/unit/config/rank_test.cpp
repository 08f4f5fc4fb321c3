// check_ranks: a table of configs and rank counts with the keys that must be named.
#include "testing.hpp"

namespace muster::config::testing {
namespace {

/// The keys named by the problems, in order.
Lines keys_of(const train::Config& config, int ranks) {
  Lines keys;
  for (const std::string& line : check_ranks(config, ranks)) keys.push_back(line.substr(0, line.find(':')));
  return keys;
}

train::Config base() { return load_quietly(minimal + "parallel: {lr_scaling: none}\n").config; }  // batch 8

TEST(Ranks, AnyCountUpToTheBatch) {
  for (int ranks = 1; ranks <= 8; ++ranks) EXPECT_EQ(check_ranks(base(), ranks), Lines{}) << ranks;
  EXPECT_EQ(
      check_ranks(base(), 9),
      Lines{"data.batch: fewer samples than ranks: 8 samples for 9 replicas; raise the batch or use fewer ranks"});
}

TEST(Ranks, LearningRateScalingMustBeStated) {
  train::Config config = base();
  config.parallel.lr_scaling.clear();
  EXPECT_EQ(keys_of(config, 1), Lines{});
  EXPECT_EQ(
      check_ranks(config, 2),
      Lines{"parallel.lr_scaling: must be stated when more than one replica trains (2 here): none keeps optimizer.lr, "
            "linear multiplies it by 2, sqrt by its root"});
}

TEST(Ranks, TheGridMustFitTheJob) {
  train::Config config = base();
  config.parallel.data = 3;
  EXPECT_EQ(keys_of(config, 3), Lines{});
  EXPECT_EQ(check_ranks(config, 4), Lines{"parallel.grid: data x pipeline x tensor = 3 x 1 x 1 needs 3 ranks, the job "
                                          "has 4; start that many, or set data: auto"});
  EXPECT_EQ(keys_of(config, 1), Lines{"parallel.grid"});
}

TEST(Ranks, StagesShareOutTheRanks) {
  train::Config config = base();  // batch 8
  config.parallel.pipeline = 2;
  config.run.accumulate = 2;
  EXPECT_EQ(check_ranks(config, 8), Lines{});
  EXPECT_EQ(check_ranks(config, 3),
            Lines{"parallel.grid: 3 ranks cannot be shared out over replicas of 2 stages; start "
                  "a multiple of 2"});
  EXPECT_EQ(keys_of(config, 10), Lines{"run.accumulate"});  // 5 replicas, 2 micro-batches each
  config.parallel.data = 2;
  EXPECT_EQ(keys_of(config, 4), Lines{});
  EXPECT_EQ(keys_of(config, 2), Lines{"parallel.grid"});
}

TEST(Ranks, BitwiseNeedsAGrainPerReplica) {
  train::Config config = base();
  config.run.reproducible = "bitwise";
  EXPECT_EQ(keys_of(config, 8), Lines{});  // auto: min(8, batch)
  config.parallel.grains = 3;
  EXPECT_EQ(keys_of(config, 3), Lines{});
  EXPECT_EQ(keys_of(config, 4), Lines{"parallel.grains"});
  config.parallel.grains = 0;
  config.data.batch = 100;
  EXPECT_EQ(keys_of(config, 9), Lines{"parallel.grains"});
  config.data.batch = 5;
  EXPECT_EQ(keys_of(config, 5), Lines{});
}

TEST(Ranks, BatchNormGroupsAreNeverCut) {
  train::Config config = load_quietly(with_layers("    - batch_norm: {scope: {group: 4}}\n    - dense: {units: 2}\n") +
                                      "parallel: {lr_scaling: none}\n")
                             .config;
  EXPECT_EQ(keys_of(config, 2), Lines{});
  EXPECT_EQ(keys_of(config, 3), Lines{"data.batch"});
  config.run.reproducible = "bitwise";
  EXPECT_EQ(keys_of(config, 2), Lines{});
  EXPECT_EQ(keys_of(config, 3), (Lines{"data.batch", "parallel.grains"}));
}

TEST(Ranks, AccumulationNeedsASamplePerMicroBatch) {
  train::Config config = base();
  config.run.accumulate = 4;
  EXPECT_EQ(keys_of(config, 2), Lines{});
  EXPECT_EQ(check_ranks(config, 3),
            Lines{"run.accumulate: 4 micro-batches on each of 3 replicas need a batch of at least 12, found 8"});
}

/// Workers of any speed take whole batches; only in lock-step a batch is cut, over all workers there may be.
TEST(Ranks, ServersInLockStepNeedAShareForEveryWorker) {
  train::Config config = base();
  config.parallel.strategy = "parameter_server";
  config.parallel.servers = 2;
  EXPECT_EQ(keys_of(config, 20), Lines{});
  config.parallel.lock_step_until = 5;
  EXPECT_EQ(keys_of(config, 10), Lines{});
  EXPECT_EQ(keys_of(config, 11), Lines{"data.batch"});
  config.parallel.lock_step_until = 0;
  config.parallel.staleness = 0;
  EXPECT_EQ(keys_of(config, 11), Lines{"data.batch"});
  config.run.reproducible = "bitwise";
  config.parallel.grains = 3;
  EXPECT_EQ(keys_of(config, 5), Lines{});
  EXPECT_EQ(keys_of(config, 6), Lines{"parallel.grains"});
}

TEST(Ranks, AllAtOnce) {
  train::Config config = base();
  config.parallel.lr_scaling.clear();
  config.parallel.data = 5;
  config.run.accumulate = 2;
  EXPECT_EQ(keys_of(config, 6), (Lines{"parallel.grid", "parallel.lr_scaling", "run.accumulate"}));
}

}  // namespace
}  // namespace muster::config::testing
