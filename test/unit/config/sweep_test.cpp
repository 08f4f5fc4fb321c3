// The list of trials that a section `sweep` stands for, and what is refused.
#include "unit/config/testing.hpp"
#include "unit/message_of.hpp"

#include <muster/config/sweep.hpp>

#include <cmath>
#include <cstdlib>

namespace muster::config::testing {
namespace {

Sweep sweep_of(const std::string& section, Lines sets = {}) {
  return load_sweep_text(minimal + "sweep:\n" + section, "c.yaml", {std::move(sets), false});
}

Lines refusal_of(const std::string& section, Lines sets = {}) {
  try {
    sweep_of(section, std::move(sets));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return split(error.what(), '\n');
  }
  return {};
}

TEST(Sweep, GridTriesEveryCombinationTheLastKeyFirst) {
  const Sweep sweep = sweep_of("  keys: {optimizer.lr: [0.1, 0.2], data.batch: [4, 8, 16]}\n");
  EXPECT_EQ(sweep.keys, (Lines{"optimizer.lr", "data.batch"}));
  EXPECT_EQ(sweep.values,
            (std::vector<Lines>{{"0.1", "4"}, {"0.1", "8"}, {"0.1", "16"}, {"0.2", "4"}, {"0.2", "8"}, {"0.2", "16"}}));
  EXPECT_EQ(sweep.describe(4), "optimizer.lr=0.2 data.batch=8");
}

TEST(Sweep, ATrialIsTheConfigWithItsValues) {
  const Sweep sweep = sweep_of("  keys: {optimizer.lr: [0.1, 0.2], data.batch: [4, 8, 16]}\n");
  const Loaded trial = load_trial(sweep, 4);
  EXPECT_EQ(trial.config.data.batch, 8);
  EXPECT_DOUBLE_EQ(trial.config.optimizer.lr, 0.2);
  EXPECT_EQ(trial.config.run.directory, "runs/run/trial-0004");
  EXPECT_EQ(sweep.directory, "runs/run");
}

TEST(Sweep, ValuesMayBeLists) {
  const Sweep sweep = sweep_of("  keys: {model.layers: [[flatten, {dense: {units: 3}}], [flatten]]}\n");
  ASSERT_EQ(sweep.trials(), 2u);
  EXPECT_EQ(load_trial(sweep, 0).config.model.layers.size(), 2u);
  EXPECT_EQ(load_trial(sweep, 1).config.model.layers.size(), 1u);
}

TEST(Sweep, SetReachesTheTrialsAndTheSectionItself) {
  const Sweep sweep =
      sweep_of("  keys: {optimizer.lr: [0.1]}\n", {"sweep.ranks_per_trial=3", "data.batch=2", "run.directory=d"});
  EXPECT_EQ(sweep.options.ranks_per_trial, 3);
  EXPECT_EQ(load_trial(sweep, 0).config.data.batch, 2);
  EXPECT_EQ(load_trial(sweep, 0).config.run.directory, "d/trial-0000");
}

TEST(Sweep, RandomDrawsStayAsTrialsAndKeysAreAdded) {
  const std::string interval = "optimizer.lr: {from: 1e-4, to: 0.1, scale: log}";
  const Sweep few = sweep_of("  {method: random, trials: 20, seed: 7, keys: {" + interval + "}}\n");
  const Sweep many = sweep_of("  {method: random, trials: 50, seed: 7, keys: {" + interval +
                              ", data.batch: {from: 4, to: 9, integer: true}}}\n");
  ASSERT_EQ(few.trials(), 20u);
  ASSERT_EQ(many.trials(), 50u);
  int low = 0, batches[10] = {};
  for (std::size_t t = 0; t < 50; ++t) {
    if (t < 20) {
      EXPECT_EQ(few.values[t][0], many.values[t][0]);
    }
    const double lr = std::stod(many.values[t][0]);
    EXPECT_GE(lr, 1e-4);
    EXPECT_LE(lr, 0.1);
    low += lr < std::sqrt(1e-4 * 0.1) ? 1 : 0;
    ++batches[std::stoi(many.values[t][1])];
  }
  EXPECT_GE(low, 12);  // half of them on a logarithmic scale, one in thirty on a linear one
  EXPECT_LE(low, 38);
  for (int batch = 4; batch <= 9; ++batch) EXPECT_GT(batches[batch], 0) << batch;
  const Sweep other = sweep_of("  {method: random, trials: 20, seed: 8, keys: {" + interval + "}}\n");
  EXPECT_NE(other.values, few.values);
}

TEST(Sweep, RoundedDrawsStayInTheirInterval) {
  const Sweep sweep = sweep_of(
      "  {method: random, trials: 50, keys: {optimizer.lr: {from: 0.12345678, to: 0.12345681}, "
      "optimizer.weight_decay: {from: 0.12345649, to: 0.123456495, scale: log}}}\n");
  for (const Lines& values : sweep.values) {
    EXPECT_GE(std::stod(values[0]), 0.12345678);  // 0.123457 when rounded: clamped to the end
    EXPECT_LE(std::stod(values[0]), 0.12345681);
    EXPECT_GE(std::stod(values[1]), 0.12345649);  // 0.123456 when rounded: clamped to the start
    EXPECT_LE(std::stod(values[1]), 0.123456495);
  }
}

TEST(Sweep, ValuesThatWouldHaveNoEffectAreRefused) {
  const std::string lr = "  keys: {optimizer.lr: [0.1, 0.2]}\n";
  EXPECT_EQ(refusal_of(lr, {"optimizer.sgd.lr=1"}).size(), 1u);
  EXPECT_EQ(refusal_of("  keys: {optimizer: [{sgd: {lr: 1}}, {adam: {lr: 1}}]}\n", {"optimizer.lr=1"}).size(), 1u);
  EXPECT_TRUE(refusal_of(lr, {"optimizer={sgd: {lr: 1}}"}).empty());
  EXPECT_EQ(refusal_of("  keys: {optimizer.lr: [0.1], optimizer: [{sgd: {lr: 1}}]}\n").size(), 1u);
  EXPECT_EQ(refusal_of("  keys: {optimizer.lr: [0.1], optimizer.sgd.lr: [0.2]}\n").size(), 1u);
  EXPECT_TRUE(refusal_of("  keys: {optimizer: [{sgd: {lr: 1}}], optimizer.lr: [0.1]}\n").empty());
  ASSERT_EQ(::setenv("MUSTER_OPTIMIZER_LR", "0.5", 1), 0);
  const std::string text = minimal + "sweep:\n" + lr;
  const std::string message = muster::test::message_of([&] { load_sweep_text(text, "c.yaml", {{}, true}); });
  EXPECT_NE(message.find("environment MUSTER_OPTIMIZER_LR: optimizer.lr: is varied by the sweep"), std::string::npos)
      << message;
  ::unsetenv("MUSTER_OPTIMIZER_LR");
}

TEST(Sweep, WhatDecides) {
  Sweep sweep;
  EXPECT_FALSE(sweep.is_larger_better());
  sweep.options.metric = "test.accuracy";
  EXPECT_TRUE(sweep.is_larger_better());
  sweep.options.goal = "min";
  EXPECT_FALSE(sweep.is_larger_better());
}

TEST(Sweep, Refusals) {
  EXPECT_EQ(refusal_of("  keys: {optimizer.lr: 0.1}\n"),
            Lines{"c.yaml:11:10: sweep.keys.optimizer.lr: expected a list of values, found '0.1'"});
  EXPECT_EQ(refusal_of("  method: random\n  keys: {optimizer.lr: [0.1]}\n").size(), 1u);
  EXPECT_EQ(refusal_of("  trials: 3\n  keys: {optimizer.lr: [0.1]}\n").size(), 1u);
  EXPECT_EQ(refusal_of("  keys: {}\n").size(), 1u);
  EXPECT_EQ(refusal_of("  metric: loss\n").size(), 1u);
  EXPECT_EQ(refusal_of("  keys: {optimizer.lr: [0.1]}\n", {"optimizer.lr=1"}).size(), 1u);
  const std::string random = "  {method: random, trials: 2, keys: {optimizer.lr: ";
  EXPECT_EQ(refusal_of(random + "{from: 2, to: 1}}}\n").size(), 1u);
  EXPECT_EQ(refusal_of(random + "{from: 0, to: 1, scale: log}}}\n").size(), 1u);
  EXPECT_EQ(refusal_of(random + "{from: 0.5, to: 2, integer: true}}}\n").size(), 1u);
  EXPECT_EQ(refusal_of(random + "{from: 1}}}\n").size(), 1u);
}

}  // namespace
}  // namespace muster::config::testing
