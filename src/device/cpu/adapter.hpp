// For ops of our own that can work in some layouts only: presents an input (and its gradient) in a layout of choice,
// through the scratch or saved memory of the op, where it comes in another.
#pragma once

#include "device/cpu/cpu_op.hpp"

namespace muster::device::cpu {

class LayoutAdapter {
 public:
  LayoutAdapter() = default;
  /// Values: given -> wanted. Gradients: wanted -> given.
  LayoutAdapter(const TensorDesc& given, const TensorDesc& wanted)
      : forward_(desc_of(given), desc_of(wanted)), backward_(desc_of(wanted), desc_of(given)) {}

  bool is_needed() const { return forward_.is_needed(); }
  std::size_t value_bytes() const { return forward_.bytes(); }
  std::size_t grad_bytes() const { return is_needed() ? value_bytes() : 0; }
  std::size_t scratchpad_bytes() const { return std::max(forward_.scratch_bytes(), backward_.scratch_bytes()); }

  void bind_value(const void* given, void* wanted, void* scratchpad) { forward_.bind(given, wanted, scratchpad); }
  void bind_grad(const void* wanted, void* given, void* scratchpad) {
    backward_.bind(wanted, given, scratchpad);
    has_grad_ = true;
  }
  void run_value() const { forward_.run(); }
  /// Nothing where no gradient was bound: an input need not want one.
  void run_grad() const {
    if (has_grad_) backward_.run();
  }

 private:
  Reorder forward_, backward_;
  bool has_grad_ = false;
};

}  // namespace muster::device::cpu
