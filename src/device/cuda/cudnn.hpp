// The graph API of cuDNN (its "backend" API) as objects: a descriptor is made, given attributes and finalised; several
// make a graph of operations; a plan is one engine's way to execute it. Nothing here needs the device, so a plan can be
// made where there is none; only execution needs a handle.
#pragma once

#include <muster/base/error.hpp>
#include <muster/base/handle.hpp>

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::device::cuda {

void check_cudnn(cudnnStatus_t status, const char* expression,
                 std::source_location where = std::source_location::current());

struct CudnnTraits {
  using type = cudnnHandle_t;
  static constexpr type empty() { return nullptr; }
  static void release(type handle) noexcept { cudnnDestroy(handle); }
};
using Cudnn = UniqueHandle<CudnnTraits>;

/// One backend descriptor. Those it refers to must outlive it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<void*>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, std::int64_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, float value);
  Descriptor& set(cudnnBackendAttributeName_t name, bool value);
  Descriptor& set(cudnnBackendAttributeName_t name, void* value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  /// What the descriptor describes must be possible. Throws Error(device).
  Descriptor& finalize();
  /// false where the library says that it cannot be done. Throws for anything else.
  bool try_finalize();

  std::int64_t get_integer(cudnnBackendAttributeName_t name) const;
  /// Descriptors that the library fills in, as many as there are.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;
  std::vector<cudnnBackendNumericalNote_t> get_notes() const;  ///< of an engine
  cudnnBackendDescriptor_t raw() const { return value_.get(); }

 private:
  struct Traits {
    using type = cudnnBackendDescriptor_t;
    static constexpr type empty() { return nullptr; }
    static void release(type descriptor) noexcept { cudnnBackendDestroyDescriptor(descriptor); }
  };
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  UniqueHandle<Traits> value_;
};

/// A float32 tensor whose strides, in elements, are those of `dims` in row-major order. Virtual: only between
/// operations of one graph.
Descriptor cudnn_tensor(std::int64_t id, const std::vector<std::int64_t>& dims, bool is_virtual = false);

/// Descriptors in the order in which they were made, so that each goes before what it refers to.
class Graph {
 public:
  /// The reference stays valid.
  Descriptor& add(Descriptor descriptor);
  /// An operation; executed in the order in which they were added.
  Descriptor& add_operation(Descriptor descriptor);
  const std::vector<const Descriptor*>& operations() const { return operations_; }

 private:
  std::vector<std::unique_ptr<Descriptor>> all_;
  std::vector<const Descriptor*> operations_;
};

/// The engine of a graph that the library's heuristics put first among those that compute in strict float32 (no TF32,
/// no reduced precision), give the same bits every time, and fit the workspace.
class CudnnPlan {
 public:
  /// Null where no engine is left. handle: of the device; read by libraries before 9.8 only.
  static std::shared_ptr<CudnnPlan> find(Graph graph, std::size_t most_workspace_bytes, cudnnHandle_t handle);
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  const Descriptor& descriptor() const { return *plan_; }

 private:
  CudnnPlan() = default;
  bool choose(cudnnBackendHeurMode_t mode, std::size_t most_workspace_bytes, cudnnHandle_t handle);
  Graph graph_;
  std::unique_ptr<Descriptor> operations_, plan_;
  std::vector<Descriptor> configs_;
  std::size_t workspace_bytes_ = 0;
};

/// A plan on certain memory: run() only enqueues, on the stream of the handle.
class CudnnRun {
 public:
  CudnnRun(std::shared_ptr<CudnnPlan> plan, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers,
           void* workspace);
  void run(cudnnHandle_t handle);

 private:
  std::shared_ptr<CudnnPlan> plan_;
  Descriptor pack_;
};

}  // namespace muster::device::cuda
