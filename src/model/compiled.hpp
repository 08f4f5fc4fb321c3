// One op of a program with its wiring. Shared by the files of Program; not public.
#pragma once

#include <muster/device/op.hpp>
#include <muster/model/program.hpp>

#include <memory>
#include <vector>

namespace muster::model {

inline constexpr int no_storage = -1;

/// After the op's backward: destination += source (the second and later readers of a value add their share).
struct Accumulation {
  int destination;  // storages
  int source;
  device::TensorDesc desc;
};

struct Program::Compiled {
  std::unique_ptr<device::Op> op;
  std::vector<device::TensorDesc> inputs;
  std::vector<bool> wants_input_grad;
  bool runs_backward = false;
  // storages
  int output = no_storage;
  int output_grad = no_storage;
  int working_grad =
      no_storage;  // what the op gets: output_grad, or a copy of it where the op writes into it and others read it
  std::vector<int> input_grads;
  int saved = no_storage;
  std::vector<Accumulation> accumulations;
  std::span<double> forward_statistics;
  std::span<double> backward_statistics;
  // the same, bound
  struct BoundAccumulation {
    void* destination;
    const void* source;
  };
  std::vector<BoundAccumulation> bound_accumulations;
  BoundAccumulation bound_copy{nullptr, nullptr};  // before backward; null: no copy
};

}  // namespace muster::model
