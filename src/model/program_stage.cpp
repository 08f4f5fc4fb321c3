// What a program that is one stage of a pipeline exchanges with its neighbours: plain values, one behind the other.
#include <muster/model/program.hpp>

#include "model/compiled.hpp"
#include "model/storage_plan.hpp"

#include <muster/base/check.hpp>

#include <algorithm>

namespace muster::model {

int Program::first_read_outside() const { return static_cast<int>(ops_.size()) - std::max(network_.leaving, 1); }

std::int64_t Program::entering_elements() const {
  std::int64_t count = 0;
  for (const Input& input : inputs_) count += input.desc.shape.elements();
  return count;
}

std::int64_t Program::entering_gradient_elements() const {
  std::int64_t count = 0;
  for (const Input& input : inputs_) count += input.bound_grad ? input.desc.shape.elements() : 0;
  return count;
}

std::int64_t Program::leaving_elements() const {
  std::int64_t count = 0;
  for (const Leaving& value : leaving_) count += value.desc.shape.elements();
  return count;
}

std::int64_t Program::leaving_gradient_elements() const {
  std::int64_t count = 0;
  for (const Leaving& value : leaving_) count += value.grad ? value.desc.shape.elements() : 0;
  return count;
}

void Program::read_leaving(float* values) {
  for (const Leaving& value : leaving_) {
    MUSTER_CHECK(value.desc.is_plain(), "what leaves a stage is plain");
    backend_.copy_out(values, value.value, value.desc.bytes());
    values += value.desc.shape.elements();
  }
}

void Program::load_leaving_gradient(const float* gradient) {
  for (const Leaving& value : leaving_) {
    if (!value.grad) continue;
    backend_.copy_in(value.grad, gradient, value.desc.bytes());
    gradient += value.desc.shape.elements();
  }
}

void Program::read_entering_gradient(float* gradient) {
  for (const Input& input : inputs_) {
    if (!input.bound_grad) continue;
    backend_.copy_out(gradient, input.bound_grad, input.desc.bytes());
    gradient += input.desc.shape.elements();
  }
}

}  // namespace muster::model
