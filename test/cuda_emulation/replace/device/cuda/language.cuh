// Takes the place of src/device/cuda/language.cuh where a .cu file is compiled by a plain compiler: a block is a number
// of fibers, shared arrays check their use, a launch is a host function that runs the block for every block index.
#pragma once

#include "cuda_emulation/kernel.hpp"

#define threadIdx (::emulation::this_thread().thread)
#define blockIdx (::emulation::this_thread().block)
#define blockDim (::emulation::this_thread().block_extent)
#define gridDim (::emulation::this_thread().grid_extent)
#define __syncthreads() ::emulation::wait_for_block()
#define GPU_LAUNCH(kernel, grid, block, stream, ...) \
  ::emulation::launch(#kernel, kernel, grid, block, stream __VA_OPT__(, ) __VA_ARGS__)
#define GPU_SHARED(type, name, count)   \
  static const char name##_key = 0;     \
  ::emulation::SharedArray<type> name(&name##_key, #name, count)
