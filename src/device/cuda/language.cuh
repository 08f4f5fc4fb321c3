// The words of CUDA that a plain compiler does not know, behind two macros, so that the same .cu files are compiled a
// second time for the emulation of the tests (test/cuda_emulation/replace/device/cuda/language.cuh takes this file's
// place there). Kernels get pointers as arguments of their own, never inside structs: the emulation translates them.
#pragma once

#include <cuda_runtime.h>

#define GPU_LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#define GPU_SHARED(type, name, count) __shared__ type name[count]
