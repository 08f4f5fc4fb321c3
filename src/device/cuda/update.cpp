#include "device/cuda/update.hpp"

#include "device/cuda/check.hpp"
#include "device/cuda/kernels.hpp"

#include <cmath>

namespace muster::device::cuda {
namespace {

AdamStep adam_step(const UpdateRule& rule, double decay) {
  const double t = static_cast<double>(rule.step);
  const bool is_decoupled = rule.kind == "adamw";
  AdamStep step;
  step.scale = static_cast<float>(rule.grad_scale);
  step.beta1 = static_cast<float>(rule.beta1);
  step.rest1 = static_cast<float>(1.0 - rule.beta1);
  step.beta2 = static_cast<float>(rule.beta2);
  step.rest2 = static_cast<float>(1.0 - rule.beta2);
  step.step_size = static_cast<float>(rule.lr / (1.0 - std::pow(rule.beta1, t)));
  step.inverse_root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(rule.beta2, t)));
  step.epsilon = static_cast<float>(rule.epsilon);
  step.coupled = is_decoupled ? 0.0f : static_cast<float>(decay);
  step.shrink = is_decoupled ? static_cast<float>(1.0 - rule.lr * decay) : 1.0f;
  return step;
}

void update_slice(Context& context, const UpdateRule& rule, const UpdateArenas& arenas, Range slice, double decay) {
  const std::int64_t count = slice.size();
  float* w = arenas.weights.data() + slice.begin;
  const float* g = arenas.grads.data() + slice.begin;
  const auto state = [&](std::size_t k) { return arenas.state[k].data() + slice.begin; };
  const auto number = [](double value) { return static_cast<float>(value); };
  if (rule.kind == "adam" || rule.kind == "adamw") {
    CUDA_CHECK(adam(w, g, state(0), state(1), adam_step(rule, decay), count, context.stream()));
  } else if (rule.kind == "rmsprop") {
    const RmsPropStep step{number(rule.lr),         number(rule.grad_scale),
                           number(rule.decay_rate), number(1 - rule.decay_rate),
                           number(rule.epsilon),    number(decay)};
    CUDA_CHECK(rmsprop(w, g, state(0), step, count, context.stream()));
  } else {
    const SgdStep step{number(rule.lr), number(rule.grad_scale), number(rule.momentum), number(decay),
                       rule.kind == "nesterov"};
    CUDA_CHECK(sgd(w, g, rule.kind == "sgd" ? nullptr : state(0), step, count, context.stream()));
  }
}

}  // namespace

std::string why_no_update(const UpdateRule& rule) {
  if (rule.kind == "lars" || rule.kind == "lamb") return "cuda has no " + rule.kind;
  return "";
}

void update(Context& context, const UpdateRule& rule, const UpdateArenas& arenas) {
  // Runs are in arena order; neighbours of equal decay make one launch (the padding between them stays zero).
  for (std::size_t begin = 0; begin < arenas.runs.size();) {
    std::size_t end = begin + 1;
    while (end < arenas.runs.size() && arenas.runs[end].has_decay == arenas.runs[begin].has_decay) ++end;
    const Range slice{arenas.runs[begin].elements.begin, arenas.runs[end - 1].elements.end};
    update_slice(context, rule, arenas, slice, arenas.runs[begin].has_decay ? rule.weight_decay : 0.0);
    begin = end;
  }
}

}  // namespace muster::device::cuda
