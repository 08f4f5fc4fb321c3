// The rest of the runtime's double: the device, errors, copies.
#include "cuda_emulation/doubles.hpp"

#include <cstdlib>
#include <cstring>

using emulation::shadow;
using emulation::stop;

/// EMULATION_DEVICES: how many cards there are; 0: none, as with a driver but no card.
extern "C" cudaError_t cudaGetDeviceCount(int* count) {
  const char* text = std::getenv("EMULATION_DEVICES");
  *count = text == nullptr ? 1 : std::atoi(text);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
extern "C" cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof(*properties));
  std::strcpy(properties->name, "emulated GPU");
  std::size_t left = 0;
  return cudaMemGetInfo(&left, &properties->totalGlobalMem);
}
extern "C" cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return "an error of the emulation";
  }
}

extern "C" cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const bool is_in = kind == cudaMemcpyHostToDevice, is_out = kind == cudaMemcpyDeviceToHost;
  if (!is_in && !is_out && kind != cudaMemcpyDeviceToDevice) stop("cudaMemcpyAsync: a kind that says nothing");
  if (const void* host = is_in ? from : to; (is_in || is_out) && !emulation::is_pinned_memory(host, bytes))
    stop("cudaMemcpyAsync: the host's memory is not pinned");
  void* target = is_out ? to : shadow(to, bytes, "cudaMemcpyAsync, destination");
  const void* source = is_in ? from : shadow(from, bytes, "cudaMemcpyAsync, source");
  emulation::enqueue(stream, "cudaMemcpyAsync", [=] { std::memcpy(target, source, bytes); });
  return cudaSuccess;
}

extern "C" cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  void* target = shadow(to, bytes, "cudaMemsetAsync");
  emulation::enqueue(stream, "cudaMemsetAsync", [=] { std::memset(target, value, bytes); });
  return cudaSuccess;
}
