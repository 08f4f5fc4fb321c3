// What all ops of one backend share: the stream on which everything runs in order, the handles of cuBLASLt
// and cuDNN with their workspace, and the pinned memory through which bytes come in and go out. Owned by the backend,
// used by one thread.
#pragma once

#include "device/cuda/cudnn.hpp"

#include <muster/base/handle.hpp>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>

namespace muster::device::cuda {

// No release can report: by then the process is on its way out, or the driver is gone.
struct StreamTraits {
  using type = cudaStream_t;
  static constexpr type empty() { return nullptr; }
  static void release(type stream) noexcept { cudaStreamDestroy(stream); }
};
struct EventTraits {
  using type = cudaEvent_t;
  static constexpr type empty() { return nullptr; }
  static void release(type event) noexcept { cudaEventDestroy(event); }
};
struct DeviceMemoryTraits {
  using type = void*;
  static constexpr type empty() { return nullptr; }
  static void release(type memory) noexcept { cudaFree(memory); }
};
struct PinnedMemoryTraits {
  using type = void*;
  static constexpr type empty() { return nullptr; }
  static void release(type memory) noexcept { cudaFreeHost(memory); }
};
struct CublasTraits {
  using type = cublasLtHandle_t;
  static constexpr type empty() { return nullptr; }
  static void release(type handle) noexcept { cublasLtDestroy(handle); }
};
using Stream = UniqueHandle<StreamTraits>;
using Event = UniqueHandle<EventTraits>;
using DeviceMemory = UniqueHandle<DeviceMemoryTraits>;
using PinnedMemory = UniqueHandle<PinnedMemoryTraits>;
using Cublas = UniqueHandle<CublasTraits>;

/// Not zeroed. Throws Error(device), naming what is left on the card, when memory runs out.
DeviceMemory allocate_device(std::size_t bytes);
PinnedMemory allocate_pinned(std::size_t bytes);

class ConvPlans;

class Context {
 public:
  /// On the device that is current in this thread.
  Context();
  ~Context();

  cudaStream_t stream() const { return stream_.get(); }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  /// cuDNN's handle on the stream; made when first asked for, since its libraries take a while to load.
  cudnnHandle_t cudnn();
  ConvPlans& conv_plans() { return *conv_plans_; }
  void* workspace() const { return workspace_.get(); }
  /// What Hopper's matrix kernels want; older cards take less.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  /// Returns when `host` may be written again; the bytes arrive in stream order.
  void copy_in(void* destination, const void* host, std::size_t bytes);
  /// Returns when the bytes are there.
  void copy_out(void* host, const void* source, std::size_t bytes);
  /// Throws Error(data) where a kernel found a token id that no vocabulary has.
  void synchronize();
  /// Where kernels write a token id that is outside the vocabulary; looked at by synchronize() from now on.
  float* watch_token_ids();

 private:
  /// Half of the staging memory; `is_free` is recorded behind the last copy that reads it.
  struct Staging {
    PinnedMemory memory;
    Event is_free;
  };
  static constexpr std::size_t staging_bytes = std::size_t{4} << 20;

  Stream stream_;
  Cublas cublas_;
  Cudnn cudnn_;
  std::unique_ptr<ConvPlans> conv_plans_;
  DeviceMemory workspace_;
  std::array<Staging, 2> staging_;
  std::size_t turn_ = 0;
  DeviceMemory bad_id_;  // one float, NaN: none; null: no op has asked
  PinnedMemory host_bad_id_;
};

}  // namespace muster::device::cuda
