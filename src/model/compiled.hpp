// One op of a program with its wiring. Shared by the files of Program; not public.
#pragma once

#include <muster/device/op.hpp>
#include <muster/model/program.hpp>

#include <memory>
#include <vector>

namespace muster::model {

inline constexpr int no_storage = -1;

/// After the op's backward: destination += source (the second and later readers of a value add their share; the first
/// user of a tied parameter adds the shares of the others, which ran before it).
struct Accumulation {
  int destination;  // storages
  int source;
  device::TensorDesc desc;
  int param = -1;  // the destination is this parameter's gradient
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
  std::vector<int> param_grads;  // no_storage: the slice of the gradient arena; else the share of a tied parameter
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
