// The kinds by name, the checks of their options, and the learning-rate rule for many replicas.
#include "optim/optimizer.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <cmath>

namespace muster::optim {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(const OptimizerOptions&);
struct Kind {
  const char* name;
  Make make;
};
constexpr Kind kinds[] = {{"sgd", make_sgd},         {"momentum", make_sgd}, {"nesterov", make_sgd},
                          {"rmsprop", make_rmsprop}, {"adam", make_adam},    {"adamw", make_adam},
                          {"lars", make_lars},       {"lamb", make_lamb}};

void check(const char* key, double value, bool is_fine, const char* expected) {
  if (!is_fine) fail(ExitCode::usage, "optimizer.{}: expected {}, found {}", key, expected, value);
}

}  // namespace

std::vector<std::string> optimizer_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& o) {
  check("lr", o.lr, o.lr > 0 && std::isfinite(o.lr), "a number above 0");
  check("momentum", o.momentum, o.momentum >= 0 && o.momentum < 1, "0 <= momentum < 1");
  check("beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "0 <= beta1 < 1");
  check("beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "0 <= beta2 < 1");
  check("epsilon", o.epsilon, o.epsilon > 0, "a number above 0");
  check("decay_rate", o.decay_rate, o.decay_rate >= 0 && o.decay_rate < 1, "0 <= decay_rate < 1");
  check("weight_decay", o.weight_decay, o.weight_decay >= 0, "0 or more");
  check("trust_coefficient", o.trust_coefficient, o.trust_coefficient > 0, "a number above 0");
  check("clip_norm", o.clip_norm, o.clip_norm >= 0, "0 (off) or more");
  for (const Kind& kind : kinds)
    if (o.kind == kind.name) return kind.make(o);
  const auto names = optimizer_kinds();
  fail(ExitCode::usage, "optimizer: unknown kind '{}', expected one of {}{}", o.kind, join(names, ", "),
       did_you_mean(o.kind, names));
}

double lr_scaling_factor(const std::string& rule, int replicas) {
  if (rule.empty() && replicas <= 1) return 1.0;  // only several replicas must say
  static const std::vector<std::string> rules{"none", "linear", "sqrt"};
  if (std::find(rules.begin(), rules.end(), rule) == rules.end())
    fail(ExitCode::usage, "parallel.lr_scaling: unknown rule '{}', expected one of {}{}", rule, join(rules, ", "),
         did_you_mean(rule, rules));
  if (rule == "linear") return replicas;
  if (rule == "sqrt") return std::sqrt(static_cast<double>(replicas));
  return 1.0;
}

}  // namespace muster::optim
