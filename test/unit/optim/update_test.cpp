// Three steps of each kind by hand. One decayed parameter of one element and one excluded one, so every term is
// visible.
#include <muster/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace muster::optim {
namespace {

OptimizerOptions options_of(const std::string& kind) {
  OptimizerOptions options;
  options.kind = kind;
  return options;
}

/// Weights, state and runs of a tiny arena, and the steps made on it.
struct Trial {
  std::unique_ptr<Optimizer> optimizer;
  std::vector<ParamRun> runs;
  std::vector<float> weights;
  std::vector<std::vector<float>> slots;
  std::int64_t steps = 0;

  Trial(const OptimizerOptions& options, std::vector<float> start, std::vector<ParamRun> parts)
      : optimizer(make_optimizer(options)),
        runs(std::move(parts)),
        weights(std::move(start)),
        slots(optimizer->slots().size(), std::vector<float>(weights.size())) {}
  const std::vector<float>& step(double lr, const std::vector<float>& grads, double scale = 1.0, int threads = 1) {
    const std::vector<std::span<float>> state(slots.begin(), slots.end());
    optimizer->update({lr, ++steps, scale, threads}, weights, grads, state, runs);
    return weights;
  }
};

const std::vector<ParamRun> two_params{{"dense.weight", {0, 1}, true}, {"dense.bias", {1, 2}, false}};

TEST(Sgd, ThreeSteps) {
  Trial trial(options_of("sgd"), {1.0f, -2.0f}, two_params);
  trial.step(0.1, {2.0f, 1.0f});
  EXPECT_FLOAT_EQ(trial.weights[0], 0.8f);
  EXPECT_FLOAT_EQ(trial.weights[1], -2.1f);
  trial.step(0.5, {-1.0f, 4.0f});  // another rate: the schedule's
  EXPECT_FLOAT_EQ(trial.weights[0], 1.3f);
  EXPECT_FLOAT_EQ(trial.weights[1], -4.1f);
  trial.step(0.1, {0.0f, 0.0f});
  EXPECT_FLOAT_EQ(trial.weights[0], 1.3f);
}

TEST(Sgd, DecaysOnlyWhereAsked) {
  OptimizerOptions options = options_of("sgd");
  options.weight_decay = 0.5;
  Trial trial(options, {1.0f, 1.0f}, two_params);
  trial.step(0.1, {0.0f, 0.0f});
  EXPECT_FLOAT_EQ(trial.weights[0], 0.95f);
  EXPECT_EQ(trial.weights[1], 1.0f);
}

TEST(Sgd, GradScaleComesBeforeWeightDecay) {
  OptimizerOptions options = options_of("sgd");
  options.weight_decay = 0.5;
  Trial trial(options, {1.0f, 1.0f}, two_params);
  trial.step(0.1, {2.0f, 2.0f}, 0.25);
  EXPECT_FLOAT_EQ(trial.weights[0], 0.9f);  // 1 - 0.1 (0.25 * 2 + 0.5 * 1)
  EXPECT_FLOAT_EQ(trial.weights[1], 0.95f);
}

TEST(Momentum, ThreeSteps) {
  OptimizerOptions options = options_of("momentum");
  options.momentum = 0.5;
  options.weight_decay = 1.0;
  Trial trial(options, {1.0f, 1.0f}, two_params);
  trial.step(0.1, {1.0f, 1.0f});  // v = 1 + 1 = 2 | 1
  EXPECT_FLOAT_EQ(trial.weights[0], 0.8f);
  EXPECT_FLOAT_EQ(trial.weights[1], 0.9f);
  trial.step(0.1, {0.2f, -1.0f});  // v = 1 + 0.2 + 0.8 = 2 | 0.5 - 1
  EXPECT_FLOAT_EQ(trial.weights[0], 0.6f);
  EXPECT_FLOAT_EQ(trial.weights[1], 0.95f);
  trial.step(0.1, {0.4f, 0.0f});  // v = 1 + 0.4 + 0.6 = 2 | -0.25
  EXPECT_FLOAT_EQ(trial.weights[0], 0.4f);
  EXPECT_FLOAT_EQ(trial.weights[1], 0.975f);
  EXPECT_FLOAT_EQ(trial.slots[0][0], 2.0f);
  EXPECT_FLOAT_EQ(trial.slots[0][1], -0.25f);
}

TEST(Nesterov, ThreeSteps) {
  OptimizerOptions options = options_of("nesterov");
  options.momentum = 0.5;
  Trial trial(options, {1.0f, -1.0f}, two_params);
  trial.step(0.1, {1.0f, 2.0f});  // v = 1 | 2, direction g + v / 2 = 1.5 | 3
  EXPECT_FLOAT_EQ(trial.weights[0], 0.85f);
  EXPECT_FLOAT_EQ(trial.weights[1], -1.3f);
  trial.step(0.1, {-1.0f, 0.0f});  // v = -0.5 | 1, direction -1.25 | 0.5
  EXPECT_FLOAT_EQ(trial.weights[0], 0.975f);
  EXPECT_FLOAT_EQ(trial.weights[1], -1.35f);
  trial.step(0.2, {0.25f, 0.5f});  // v = 0 | 1, direction 0.25 | 1
  EXPECT_FLOAT_EQ(trial.weights[0], 0.925f);
  EXPECT_FLOAT_EQ(trial.weights[1], -1.55f);
}

TEST(RmsProp, ThreeSteps) {
  OptimizerOptions options = options_of("rmsprop");
  options.decay_rate = 0.75;
  options.epsilon = 0.5;
  Trial trial(options, {1.0f, 1.0f}, two_params);
  trial.step(1.0, {4.0f, 2.0f});  // s = 4 | 1: 4 / 2.5 | 2 / 1.5
  EXPECT_FLOAT_EQ(trial.weights[0], -0.6f);
  EXPECT_FLOAT_EQ(trial.weights[1], 1.0f - 4.0f / 3.0f);
  trial.step(1.0, {2.0f, 1.0f});  // s = 4 | 1: 2 / 2.5 | 1 / 1.5
  EXPECT_FLOAT_EQ(trial.weights[0], -1.4f);
  EXPECT_FLOAT_EQ(trial.weights[1], -1.0f);
  trial.step(0.5, {-2.0f, 0.0f});  // s = 4 | 0.75
  EXPECT_FLOAT_EQ(trial.weights[0], -1.0f);
  EXPECT_FLOAT_EQ(trial.weights[1], -1.0f);
  EXPECT_FLOAT_EQ(trial.slots[0][1], 0.75f);
}

TEST(Adam, ThreeStepsWithBiasCorrection) {
  OptimizerOptions options = options_of("adam");
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 1.0;
  Trial trial(options, {1.0f, 2.0f}, two_params);
  trial.step(0.5, {4.0f, -1.0f});  // m^ = 4 | -1, v^ = 16 | 1: whatever the betas
  EXPECT_FLOAT_EQ(trial.weights[0], 1.0f - 0.5f * 4.0f / 5.0f);
  EXPECT_FLOAT_EQ(trial.weights[1], 2.25f);
  EXPECT_FLOAT_EQ(trial.slots[0][0], 2.0f);
  EXPECT_FLOAT_EQ(trial.slots[1][0], 4.0f);
  trial.step(0.5, {0.0f, 0.0f});  // m = 1 | -0.25, v = 3 | 3/16; corrections 3/4, 7/16
  EXPECT_FLOAT_EQ(trial.weights[0], static_cast<float>(0.6 - 0.5 * (4.0 / 3.0) / (std::sqrt(48.0 / 7.0) + 1.0)));
  EXPECT_FLOAT_EQ(trial.weights[1], static_cast<float>(2.25 + 0.5 * (1.0 / 3.0) / (std::sqrt(3.0 / 7.0) + 1.0)));
  const double before = trial.weights[0];
  trial.step(0.5, {2.0f, 0.0f});  // m = 1.5, v = 3.25; corrections 7/8, 37/64
  EXPECT_FLOAT_EQ(trial.weights[0], static_cast<float>(before - 0.5 * (12.0 / 7.0) / (std::sqrt(208.0 / 37.0) + 1.0)));
}

TEST(Adam, DefaultsMakeTheFirstStepOneRateLong) {
  Trial trial(options_of("adam"), {1.0f, 1.0f}, two_params);
  trial.step(0.001, {100.0f, -0.01f});
  EXPECT_FLOAT_EQ(trial.weights[0], 0.999f);
  EXPECT_NEAR(trial.weights[1], 1.001f, 2e-7f);
}

TEST(Adam, DecayGoesIntoTheGradient) {
  OptimizerOptions options = options_of("adam");
  options.weight_decay = 2.0;
  options.epsilon = 1.0;
  Trial trial(options, {1.5f, 1.5f}, two_params);
  trial.step(1.0, {0.0f, 0.0f});  // g = 3: 3 / (3 + 1)
  EXPECT_FLOAT_EQ(trial.weights[0], 0.75f);
  EXPECT_EQ(trial.weights[1], 1.5f);
}

TEST(AdamW, DecayLeavesTheAveragesAlone) {
  OptimizerOptions options = options_of("adamw");
  options.weight_decay = 0.5;
  Trial trial(options, {2.0f, 2.0f}, two_params);
  for (int step = 1; step <= 3; ++step) trial.step(0.5, {0.0f, 0.0f});
  EXPECT_FLOAT_EQ(trial.weights[0], 2.0f * 0.75f * 0.75f * 0.75f);
  EXPECT_EQ(trial.weights[1], 2.0f);
  EXPECT_EQ(trial.slots[0][0], 0.0f);
  EXPECT_EQ(trial.slots[1][0], 0.0f);
}

TEST(AdamW, FirstStep) {
  OptimizerOptions options = options_of("adamw");
  options.weight_decay = 0.5;
  options.epsilon = 1.0;
  Trial trial(options, {2.0f, 2.0f}, two_params);
  trial.step(0.5, {3.0f, 3.0f});  // 2 * 0.75 - 0.5 * 3/4 | 2 - 0.5 * 3/4
  EXPECT_FLOAT_EQ(trial.weights[0], 1.125f);
  EXPECT_FLOAT_EQ(trial.weights[1], 1.625f);
}

// |w| = 5, |g| = 10 (after the scale); the excluded parameter is plain momentum.
const std::vector<ParamRun> pair_and_bias{{"dense.weight", {0, 2}, true}, {"dense.bias", {2, 3}, false}};

TEST(Lars, ThreeSteps) {
  OptimizerOptions options = options_of("lars");
  options.momentum = 0.5;
  options.weight_decay = 1.0;
  options.trust_coefficient = 0.3;
  Trial trial(options, {3.0f, 4.0f, 1.0f}, pair_and_bias);
  trial.step(1.0, {12.0f, 16.0f, 4.0f}, 0.5);  // local = 0.3 * 5 / (10 + 5) = 0.1; v = 0.1 (6 + 3) | 0.1 (8 + 4)
  EXPECT_FLOAT_EQ(trial.weights[0], 2.1f);
  EXPECT_FLOAT_EQ(trial.weights[1], 2.8f);
  EXPECT_FLOAT_EQ(trial.weights[2], -1.0f);  // excluded: neither scaled nor decayed
  trial.step(1.0, {0.0f, 0.0f, 0.0f});       // no gradient: local = 1; v = 0.45 + 2.1 | 0.6 + 2.8 | 1
  EXPECT_FLOAT_EQ(trial.weights[0], -0.45f);
  EXPECT_FLOAT_EQ(trial.weights[1], -0.6f);
  EXPECT_FLOAT_EQ(trial.weights[2], -2.0f);
  trial.step(2.0, {0.45f, 0.6f, 0.0f});  // |w| = |g| = 0.75, local = 0.15, g + w = 0: v halves
  EXPECT_FLOAT_EQ(trial.weights[0], -0.45f - 1.275f);
  EXPECT_FLOAT_EQ(trial.weights[1], -0.6f - 1.7f);
}

TEST(Lamb, FirstStepIsAsLongAsTheWeights) {
  OptimizerOptions options = options_of("lamb");
  Trial trial(options, {3.0f, 4.0f, 1.0f}, pair_and_bias);
  trial.step(0.1, {5.0f, -0.25f, 2.0f});  // r = (1, -1): ratio 5 / sqrt(2); bias: r = 1, ratio 1
  EXPECT_FLOAT_EQ(trial.weights[0], static_cast<float>(3.0 - 0.5 / std::sqrt(2.0)));
  EXPECT_FLOAT_EQ(trial.weights[1], static_cast<float>(4.0 + 0.5 / std::sqrt(2.0)));
  EXPECT_FLOAT_EQ(trial.weights[2], 0.9f);
}

TEST(Lamb, ThreeSteps) {
  OptimizerOptions options = options_of("lamb");
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 1.0;
  options.weight_decay = 0.5;
  Trial trial(options, {2.0f, 2.0f}, two_params);
  trial.step(0.5, {4.0f, 4.0f});  // one element: |w| / |r| * r = |w| sign(r); bias: 4 / 5
  EXPECT_FLOAT_EQ(trial.weights[0], 1.0f);
  EXPECT_FLOAT_EQ(trial.weights[1], 1.6f);
  trial.step(0.5, {0.0f, 0.0f});  // bias as Adam without decay
  EXPECT_FLOAT_EQ(trial.weights[0], 0.5f);
  EXPECT_FLOAT_EQ(trial.weights[1], static_cast<float>(1.6 - 0.5 * (4.0 / 3.0) / (std::sqrt(48.0 / 7.0) + 1.0)));
  trial.step(0.5, {-100.0f, 0.0f});  // m = 0.5 - 50: r < 0
  EXPECT_FLOAT_EQ(trial.weights[0], 0.75f);
}

TEST(Lamb, ZeroWeightsMoveByTheRateAlone) {
  Trial trial(options_of("lamb"), {0.0f, 0.0f, 0.0f}, pair_and_bias);
  trial.step(0.1, {2.0f, -3.0f, 1.0f});
  EXPECT_FLOAT_EQ(trial.weights[0], -0.1f);
  EXPECT_FLOAT_EQ(trial.weights[1], 0.1f);
}

// ---- every kind

class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  static OptimizerOptions options() {
    OptimizerOptions options = options_of(GetParam());
    options.weight_decay = 0.01;
    return options;
  }
  static float value(std::size_t i, int salt) {
    return std::sin(0.37f * static_cast<float>(i) + static_cast<float>(salt));
  }
  static std::vector<float> values(std::size_t count, int salt) {
    std::vector<float> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = value(i, salt);
    return out;
  }
};

/// Runs of size 0, 1, odd, just around a piece, and large; padding between them.
std::vector<ParamRun> many_runs(std::int64_t& total) {
  std::vector<ParamRun> runs;
  total = 0;
  for (std::int64_t size : {0, 1, 7, 4095, 4096, 4097, 0, 100003, 16, 33}) {
    runs.push_back({"p" + std::to_string(runs.size()), {total, total + size}, size % 2 == 1});
    total += size + 5;
  }
  return runs;
}

TEST_P(EveryKind, BitsDoNotDependOnThreads) {
  std::int64_t total = 0;
  const auto runs = many_runs(total);
  std::vector<float> expected;
  std::vector<std::vector<float>> expected_slots;
  for (int threads : {1, 2, 3, 4, 7}) {
    Trial trial(options(), values(static_cast<std::size_t>(total), 1), runs);
    for (int step = 0; step < 3; ++step)
      trial.step(0.01, values(static_cast<std::size_t>(total), 10 + step), 0.7, threads);
    if (threads == 1) expected = trial.weights, expected_slots = trial.slots;
    EXPECT_EQ(trial.weights, expected) << threads;
    EXPECT_EQ(trial.slots, expected_slots) << threads;
  }
}

TEST_P(EveryKind, TouchesItsRunsAndNothingElse) {
  std::int64_t total = 0;
  const auto runs = many_runs(total);
  const std::vector<float> start(static_cast<std::size_t>(total), 0.5f);
  Trial trial(options(), start, runs);
  trial.step(1.0, std::vector<float>(static_cast<std::size_t>(total), 1.0f), 1.0, 2);
  std::vector<bool> is_inside(start.size());
  for (const ParamRun& run : runs)
    for (std::int64_t i = run.elements.begin; i < run.elements.end; ++i) is_inside[static_cast<std::size_t>(i)] = true;
  for (std::size_t i = 0; i < start.size(); ++i) ASSERT_EQ(trial.weights[i] != start[i], is_inside[i]) << i;
}

TEST_P(EveryKind, AParameterDoesNotFeelItsNeighbours) {
  std::int64_t total = 0;
  const auto runs = many_runs(total);
  const auto start = values(static_cast<std::size_t>(total), 1), grads = values(static_cast<std::size_t>(total), 2);
  Trial together(options(), start, runs);
  together.step(0.01, grads, 1.0, 2);
  const ParamRun& run = runs[7];  // the large one, alone in a sub-span
  const auto begin = start.begin() + run.elements.begin, end = start.begin() + run.elements.end;
  Trial alone(options(), {begin, end}, {{run.name, {0, run.elements.size()}, run.has_decay}});
  alone.step(0.01, {grads.begin() + run.elements.begin, grads.begin() + run.elements.end}, 1.0, 1);
  for (std::size_t i = 0; i < alone.weights.size(); ++i)
    ASSERT_EQ(alone.weights[i], together.weights[i + static_cast<std::size_t>(run.elements.begin)]) << i;
}

TEST_P(EveryKind, PaddingStaysZero) {
  Trial trial(options(), {1.0f, 2.0f, 3.0f, 0.0f, 0.0f}, {{"p", {0, 5}, true}});
  for (int step = 0; step < 3; ++step) trial.step(0.1, {1.0f, -1.0f, 2.0f, 0.0f, 0.0f});
  EXPECT_EQ(trial.weights[3], 0.0f);
  EXPECT_EQ(trial.weights[4], 0.0f);
  for (const auto& slot : trial.slots) EXPECT_EQ(slot[4], 0.0f);
}

TEST_P(EveryKind, NoRunsAndEmptyArenas) {
  Trial empty(options(), {}, {});
  EXPECT_TRUE(empty.step(0.1, {}, 1.0, 4).empty());
  Trial hollow(options(), {1.0f}, {{"p", {0, 0}, true}, {"q", {1, 1}, true}});
  EXPECT_EQ(hollow.step(0.1, {1.0f}), std::vector<float>{1.0f});
}

TEST_P(EveryKind, GradScaleEqualsScaledGradients) {
  Trial scaled(options(), {1.0f, -2.0f, 0.5f}, pair_and_bias), plain(options(), {1.0f, -2.0f, 0.5f}, pair_and_bias);
  for (int step = 0; step < 3; ++step) {
    scaled.step(0.01, {4.0f, -8.0f, 2.0f}, 0.25);
    plain.step(0.01, {1.0f, -2.0f, 0.5f});
  }
  EXPECT_EQ(scaled.weights, plain.weights);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, testing::ValuesIn(optimizer_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace muster::optim
