// Between our tensor descriptions and oneDNN's memory descriptors, and a primitive with everything it needs to run.
#pragma once

#include "device/cpu/dnnl_compat.hpp"

#include <muster/base/error.hpp>
#include <muster/device/layout.hpp>

#include <string>
#include <vector>

namespace muster::device::cpu {

dnnl::engine& engine();
dnnl::stream& stream();

/// A oneDNN format that is not plain. dims: the extents under which it describes the tensor (equally many elements, the
/// same plain order).
class DnnlLayout : public Layout {
 public:
  DnnlLayout(memory::desc desc, memory::dims dims) : desc_(std::move(desc)), dims_(std::move(dims)) {}
  std::size_t bytes() const override { return desc_.get_size(); }
  bool equals(const Layout& other) const override;
  std::string describe() const override;
  const memory::desc& desc() const { return desc_; }
  const memory::dims& dims() const { return dims_; }

 private:
  memory::desc desc_;
  memory::dims dims_;
};

memory::dims dims_of(const Shape& shape);
/// Row-major float32.
memory::desc plain_desc(const memory::dims& dims);
memory::desc any_desc(const memory::dims& dims);
/// The descriptor of a tensor in its layout.
memory::desc desc_of(const TensorDesc& tensor);
/// The same for a parameter seen under other extents of equally many elements (a dense weight over images).
memory::desc desc_of(const TensorDesc& tensor, const memory::dims& dims);
/// shape under the layout of `desc`; plain layouts become null.
TensorDesc tensor_of(const Shape& shape, const memory::desc& desc, const memory::dims& dims);

/// Whole-tensor copies between a layout and plain order; allocate, so not for the step.
void copy_to_plain(const TensorDesc& tensor, const void* source, float* plain);
void copy_from_plain(const TensorDesc& tensor, const float* plain, void* destination);

/// Runs `make` and turns oneDNN's exceptions into an Error that names what was asked for.
template <class Make>
auto translated(const char* what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    fail_library(ExitCode::device, "oneDNN", what, static_cast<long>(error.status), error.what());
  }
}

/// The attribute all primitives are made with: scratch memory comes from the caller.
primitive_attr user_scratchpad();

/// A primitive and its bound arguments. Running it allocates nothing.
class BoundPrimitive {
 public:
  BoundPrimitive() = default;
  template <class PrimitiveDesc>
  BoundPrimitive(const dnnl::primitive& primitive, const PrimitiveDesc& desc)
      : primitive_(primitive), scratchpad_(desc.scratchpad_desc()) {}

  std::size_t scratch_bytes() const { return primitive_ ? scratchpad_.get_size() : 0; }
  void bind(int argument, const memory::desc& desc, const void* data);
  void bind_scratch(void* data) { bind(DNNL_ARG_SCRATCHPAD, scratchpad_, data); }
  void run() const;
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  void clear_arguments() { memories_.clear(), arguments_.clear(); }

 private:
  dnnl::primitive primitive_;
  memory::desc scratchpad_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// A change of format, or nothing where both are equal.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to);
  bool is_needed() const { return static_cast<bool>(primitive_); }
  std::size_t scratch_bytes() const { return primitive_.scratch_bytes(); }
  /// Bytes of the destination, 0 when nothing is needed.
  std::size_t bytes() const { return is_needed() ? to_.get_size() : 0; }
  void bind(const void* from, void* to, void* scratch);
  void run() const {
    if (is_needed()) primitive_.run();
  }

 private:
  memory::desc from_, to_;
  BoundPrimitive primitive_;
};

/// Lays pieces of one scratch area side by side, 64-byte aligned.
class Pieces {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  std::size_t bytes() const { return bytes_; }
  static void* at(void* base, std::size_t offset) { return static_cast<std::byte*>(base) + offset; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace muster::device::cpu
