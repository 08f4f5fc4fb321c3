#include "device/cuda/context.hpp"

#include "device/cuda/check.hpp"
#include "device/cuda/conv_plans.hpp"

#include <muster/base/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace muster::device::cuda {

DeviceMemory allocate_device(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it would be reported again by the next launch
    std::size_t left = 0, all = 0;
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    fail(ExitCode::device,
         "out of device memory: {} more were asked for, {} of {} are left; use a smaller data.batch or more ranks",
         human_bytes(bytes), human_bytes(left), human_bytes(all));
  }
  check_cuda(status, "cudaMalloc");
  return DeviceMemory(memory);
}

PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault));
  return PinnedMemory(memory);
}

Context::Context() : conv_plans_(std::make_unique<ConvPlans>(*this)) {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  cublasLtHandle_t cublas = nullptr;
  CUBLAS_CHECK(cublasLtCreate(&cublas));
  cublas_.reset(cublas);
  workspace_ = allocate_device(workspace_bytes);
  for (Staging& staging : staging_) {
    staging.memory = allocate_pinned(staging_bytes);
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    staging.is_free.reset(event);
  }
}

Context::~Context() = default;

cudnnHandle_t Context::cudnn() {
  if (!cudnn_) {
    cudnnHandle_t made = nullptr;
    check_cudnn(cudnnCreate(&made), "cudnnCreate");
    cudnn_.reset(made);
    check_cudnn(cudnnSetStream(made, stream()), "cudnnSetStream");
  }
  return cudnn_.get();
}

void Context::copy_in(void* destination, const void* host, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += staging_bytes) {
    Staging& staging = staging_[turn_++ % staging_.size()];
    const std::size_t part = std::min(staging_bytes, bytes - at);
    CUDA_CHECK(cudaEventSynchronize(staging.is_free.get()));
    std::memcpy(staging.memory.get(), static_cast<const std::byte*>(host) + at, part);
    CUDA_CHECK(cudaMemcpyAsync(static_cast<std::byte*>(destination) + at, staging.memory.get(), part,
                               cudaMemcpyHostToDevice, stream()));
    CUDA_CHECK(cudaEventRecord(staging.is_free.get(), stream()));
  }
}

void Context::copy_out(void* host, const void* source, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += staging_bytes) {
    Staging& staging = staging_[turn_++ % staging_.size()];
    const std::size_t part = std::min(staging_bytes, bytes - at);
    CUDA_CHECK(cudaMemcpyAsync(staging.memory.get(), static_cast<const std::byte*>(source) + at, part,
                               cudaMemcpyDeviceToHost, stream()));
    synchronize();
    std::memcpy(static_cast<std::byte*>(host) + at, staging.memory.get(), part);
  }
}

float* Context::watch_token_ids() {
  if (!bad_id_) {
    bad_id_ = allocate_device(sizeof(float));
    host_bad_id_ = allocate_pinned(sizeof(float));
    const float none = std::numeric_limits<float>::quiet_NaN();
    copy_in(bad_id_.get(), &none, sizeof(none));
  }
  return static_cast<float*>(bad_id_.get());
}

void Context::synchronize() {
  if (bad_id_)
    CUDA_CHECK(cudaMemcpyAsync(host_bad_id_.get(), bad_id_.get(), sizeof(float), cudaMemcpyDeviceToHost, stream()));
  CUDA_CHECK(cudaStreamSynchronize(stream()));
  if (!bad_id_) return;
  if (const float id = *static_cast<const float*>(host_bad_id_.get()); !std::isnan(id))
    fail(ExitCode::data, "embedding: token id {} is outside the vocabulary", id);
}

}  // namespace muster::device::cuda
