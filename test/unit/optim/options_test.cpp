// Names, defaults, refusals, norms, clipping and the rule for many replicas.
#include <muster/base/error.hpp>
#include <muster/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::optim {
namespace {

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Registry, SlotsOfEachKind) {
  using Names = std::vector<std::string>;
  const std::vector<std::pair<std::string, Names>> expected{
      {"sgd", {}},          {"momentum", {"momentum"}}, {"nesterov", {"momentum"}}, {"rmsprop", {"square_average"}},
      {"adam", {"m", "v"}}, {"adamw", {"m", "v"}},      {"lars", {"momentum"}},     {"lamb", {"m", "v"}}};
  Names kinds;
  for (const auto& [kind, slots] : expected) {
    OptimizerOptions options;
    options.kind = kind;
    EXPECT_EQ(make_optimizer(options)->slots(), slots) << kind;
    kinds.push_back(kind);
  }
  EXPECT_EQ(optimizer_kinds(), kinds);
}

TEST(Registry, RefusesAnUnknownKind) {
  OptimizerOptions options;
  options.kind = "adamm";
  EXPECT_EQ(message_of([&] { make_optimizer(options); }),
            "optimizer: unknown kind 'adamm', expected one of sgd, momentum, nesterov, rmsprop, adam, adamw, lars, "
            "lamb; did you mean 'adam'?");
}

TEST(Registry, RefusesValuesOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::tuple<const char*, double OptimizerOptions::*, double>> bad{
      {"lr", &OptimizerOptions::lr, 0.0},
      {"lr", &OptimizerOptions::lr, nan},
      {"lr", &OptimizerOptions::lr, std::numeric_limits<double>::infinity()},
      {"momentum", &OptimizerOptions::momentum, 1.0},
      {"momentum", &OptimizerOptions::momentum, -0.1},
      {"beta1", &OptimizerOptions::beta1, 1.0},
      {"beta2", &OptimizerOptions::beta2, 1.0},
      {"epsilon", &OptimizerOptions::epsilon, 0.0},
      {"decay_rate", &OptimizerOptions::decay_rate, 1.0},
      {"weight_decay", &OptimizerOptions::weight_decay, -1e-4},
      {"weight_decay", &OptimizerOptions::weight_decay, nan},
      {"trust_coefficient", &OptimizerOptions::trust_coefficient, 0.0},
      {"clip_norm", &OptimizerOptions::clip_norm, -1.0}};
  for (const auto& [key, field, value] : bad) {
    OptimizerOptions options;
    options.*field = value;
    EXPECT_EQ(message_of([&] { make_optimizer(options); }).substr(0, 21 + std::string(key).size()),
              "optimizer." + std::string(key) + ": expected ")
        << value;
  }
  OptimizerOptions options;
  options.momentum = 1.5;
  EXPECT_EQ(message_of([&] { make_optimizer(options); }), "optimizer.momentum: expected 0 <= momentum < 1, found 1.5");
}

TEST(Norm, ClosedForms) {
  EXPECT_EQ(squared_norm({}, 4), 0.0);
  EXPECT_EQ(squared_norm(std::vector<float>{-3.0f}, 1), 9.0);
  EXPECT_EQ(squared_norm(std::vector<float>{3.0f, 4.0f}, 1), 25.0);
  for (std::int64_t n : {31, 32, 33, 4095, 4096, 4097, 100001}) {  // sum of i^2, exact in double
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
    EXPECT_EQ(squared_norm(values, 2), static_cast<double>(n) * (n + 1) * (2 * n + 1) / 6) << n;
  }
}

TEST(Norm, DoesNotOverflowFloat) {
  EXPECT_DOUBLE_EQ(std::sqrt(squared_norm(std::vector<float>(4, 1e30f), 1)) / 1e30f, 2.0);
}

TEST(Norm, BitsDependOnNeitherThreadsNorAddress) {
  std::vector<float> values(200000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const std::span<const float> all = values;
  const double expected = squared_norm(all.first(150001), 1);
  for (int threads : {2, 3, 4, 7}) EXPECT_EQ(squared_norm(all.first(150001), threads), expected);
  for (std::size_t shift : {1, 3, 8}) {
    std::vector<float> moved(150001 + shift);
    std::copy_n(values.begin(), 150001, moved.begin() + static_cast<std::ptrdiff_t>(shift));
    EXPECT_EQ(squared_norm(std::span<const float>(moved).subspan(shift), 2), expected) << shift;
  }
}

TEST(Clip, ScalesOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_scale(10.0, 0.0), 1.0);
  EXPECT_EQ(clip_scale(1.0, 2.0), 1.0);
  EXPECT_EQ(clip_scale(2.0, 2.0), 1.0);
  EXPECT_EQ(clip_scale(8.0, 2.0), 0.25);
  EXPECT_EQ(clip_scale(0.0, 2.0), 1.0);
}

TEST(Clip, ClippedUpdate) {
  OptimizerOptions options;
  std::vector<float> weights{0.0f, 0.0f};
  const std::vector<float> grads{6.0f, 8.0f};
  const std::vector<ParamRun> runs{{"p", {0, 2}, true}};
  const double scale = clip_scale(std::sqrt(squared_norm(grads, 1)), 5.0);
  make_optimizer(options)->update({1.0, 1, scale, 1}, weights, grads, {}, runs);
  EXPECT_FLOAT_EQ(weights[0], -3.0f);
  EXPECT_FLOAT_EQ(weights[1], -4.0f);
}

TEST(LrScaling, Rules) {
  EXPECT_EQ(lr_scaling_factor("none", 8), 1.0);
  EXPECT_EQ(lr_scaling_factor("linear", 8), 8.0);
  EXPECT_EQ(lr_scaling_factor("sqrt", 16), 4.0);
  EXPECT_EQ(lr_scaling_factor("", 1), 1.0);
  EXPECT_EQ(message_of([] { lr_scaling_factor("linar", 2); }),
            "parallel.lr_scaling: unknown rule 'linar', expected one of none, linear, sqrt; did you mean 'linear'?");
  EXPECT_NE(message_of([] { lr_scaling_factor("", 2); }), "nothing was thrown");
}

}  // namespace
}  // namespace muster::optim
