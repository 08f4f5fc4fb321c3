// Every call of the CUDA runtime and of cuBLASLt goes through these: a failed one is an Error(device) with the
// library's own text.
#pragma once

#include <muster/base/error.hpp>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace muster::device::cuda {

inline void check_cuda(cudaError_t status, const char* expression,
                       std::source_location where = std::source_location::current()) {
  if (status != cudaSuccess)
    fail_library(ExitCode::device, "CUDA", expression, status, cudaGetErrorString(status), where);
}

inline void check_cublas(cublasStatus_t status, const char* expression,
                         std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_library(ExitCode::device, "cuBLASLt", expression, status, cublasLtGetStatusString(status), where);
}

}  // namespace muster::device::cuda

#define CUDA_CHECK(expression) ::muster::device::cuda::check_cuda((expression), #expression)
#define CUBLAS_CHECK(expression) ::muster::device::cuda::check_cublas((expression), #expression)
