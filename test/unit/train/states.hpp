// Checkpoint states for tests: values that differ per tensor and index.
#pragma once

#include <muster/base/error.hpp>
#include <muster/train/checkpoint.hpp>

#include <gtest/gtest.h>

#include <string>

namespace muster::train {

inline bool operator==(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.shape == b.shape && a.values == b.values;
}
inline bool operator==(const CheckpointState& a, const CheckpointState& b) {
  return a.step == b.step && a.sample_counter == b.sample_counter && a.epoch == b.epoch && a.audit == b.audit &&
         a.interval == b.interval && a.weights == b.weights && a.optimizer == b.optimizer;
}

}  // namespace muster::train

namespace muster::test {

inline train::NamedTensor tensor_of(const std::string& name, const Shape& shape, float first) {
  train::NamedTensor tensor{name, shape, {}};
  for (std::int64_t i = 0; i < shape.elements(); ++i) tensor.values.push_back(first + 0.25f * static_cast<float>(i));
  return tensor;
}

/// Sizes 0, 1, odd and even; names in the order of safetensors.
inline train::CheckpointState state_of(std::int64_t step) {
  const auto first = static_cast<float>(step);
  train::CheckpointState state;
  state.step = step;
  state.sample_counter = 32 * step + 1;
  state.epoch = step / 10;
  state.audit = {step, -step, step * 1'000'000'000};
  state.interval = {step % 3, 11, step * 1'000, 5, 7};
  if (state.interval[0] == 0) state.interval = {};
  state.weights = {tensor_of("conv2d_1.bias", {3}, first), tensor_of("conv2d_1.weight", {3, 1, 5, 5}, -first),
                   tensor_of("empty", {0, 4}, 0), tensor_of("scalar", {}, first + 0.5f)};
  state.optimizer = {tensor_of("m/conv2d_1.bias", {3}, 7 + first),
                     tensor_of("m/conv2d_1.weight", {3, 1, 5, 5}, 9 - first), tensor_of("m/empty", {0, 4}, 0),
                     tensor_of("v/conv2d_1.bias", {3}, 70)};
  return state;
}

/// The message of the Error(checkpoint) that call throws.
template <class Call>
std::string checkpoint_error(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace muster::test
