// Every kind against other implementations: test/golden/optimizers.txt, which test/golden/optimizers.py writes.
#include <muster/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace muster::optim {
namespace {

struct Case {
  OptimizerOptions options;
  std::vector<float> start;
  std::vector<std::vector<float>> grads, weights;  // per step
};

void set_option(OptimizerOptions& options, const std::string& key, double value) {
  const std::map<std::string, double*> fields{{"lr", &options.lr},
                                              {"momentum", &options.momentum},
                                              {"beta1", &options.beta1},
                                              {"beta2", &options.beta2},
                                              {"epsilon", &options.epsilon},
                                              {"decay_rate", &options.decay_rate},
                                              {"weight_decay", &options.weight_decay},
                                              {"trust_coefficient", &options.trust_coefficient}};
  *fields.at(key) = value;
}

std::vector<float> numbers(std::istringstream& line) {
  std::vector<float> values;
  for (float value; line >> value;) values.push_back(value);
  return values;
}

std::vector<Case> read_cases() {
  const char* source = std::getenv("MUSTER_SOURCE");
  std::ifstream file(std::filesystem::path(source ? source : ".") / "test/golden/optimizers.txt");
  std::vector<Case> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      OptimizerOptions& options = cases.emplace_back().options;
      line >> options.kind;
      for (std::string pair; line >> pair;)
        set_option(options, pair.substr(0, pair.find('=')), std::stod(pair.substr(pair.find('=') + 1)));
    } else if (word == "start") cases.back().start = numbers(line);
    else if (word == "grads") cases.back().grads.push_back(numbers(line));
    else if (word == "weights") cases.back().weights.push_back(numbers(line));
  }
  return cases;
}

TEST(Golden, EveryKindFollowsTheReference) {
  const std::vector<ParamRun> runs{{"layer.weight", {0, 7}, true}, {"layer.bias", {7, 10}, false}};
  std::set<std::string> seen;
  for (const Case& golden : read_cases()) {
    SCOPED_TRACE(golden.options.kind + ", weight decay " + std::to_string(golden.options.weight_decay));
    const auto optimizer = make_optimizer(golden.options);
    std::vector<float> weights = golden.start;
    std::vector<std::vector<float>> slots(optimizer->slots().size(), std::vector<float>(weights.size()));
    const std::vector<std::span<float>> state(slots.begin(), slots.end());
    ASSERT_EQ(golden.weights.size(), 5u);
    ASSERT_EQ(golden.start.size(), 10u);
    for (std::size_t step = 0; step < golden.weights.size(); ++step) {
      optimizer->update({golden.options.lr, static_cast<std::int64_t>(step) + 1, 1.0, 1}, weights, golden.grads[step],
                        state, runs);
      for (std::size_t i = 0; i < weights.size(); ++i)
        ASSERT_NEAR(weights[i], golden.weights[step][i], 2e-6f * std::max(1.0f, std::abs(golden.weights[step][i])))
            << "step " << step << ", element " << i;
    }
    seen.insert(golden.options.kind);
  }
  const auto kinds = optimizer_kinds();
  EXPECT_EQ(seen, (std::set<std::string>{kinds.begin(), kinds.end()}));
}

}  // namespace
}  // namespace muster::optim
