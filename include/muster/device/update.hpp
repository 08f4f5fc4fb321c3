// One step of an optimizer as a backend does it that has memory of its own: the rule with this step's numbers, and the
// arenas it works on. The formulas are those of the files of src/optim with the same names.
#pragma once

#include <muster/base/ids.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace muster::device {

struct UpdateRule {
  std::string kind;  ///< sgd | momentum | nesterov | rmsprop | adam | adamw | lars | lamb
  double lr = 0;
  std::int64_t step = 1;    ///< 1 for the first update (bias correction)
  double grad_scale = 1.0;  ///< gradients are multiplied by this first
  double momentum = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0;
  double decay_rate = 0;
  double weight_decay = 0;
  double trust_coefficient = 0;
};

/// A stretch of the arenas with or without weight decay.
struct UpdateRun {
  Range elements;
  bool has_decay = true;
};

struct UpdateArenas {
  std::span<float> weights;
  std::span<const float> grads;
  std::span<const std::span<float>> state;  ///< one arena per slot of the optimizer
  std::span<const UpdateRun> runs;          ///< one per parameter
};

}  // namespace muster::device
