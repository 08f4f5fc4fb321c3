// What cards say of themselves, as cuDNN takes it to plan for a card that is not there. The numbers are public ones;
// those of a real card replace them once one has been at hand (make check-gpu).
#pragma once

#include <fmt/format.h>

#include <string>

namespace emulation {

/// name: h200 | a100 | b200
inline std::string device_description(const std::string& name) {
  const bool is_a100 = name == "a100", is_b200 = name == "b200";
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":{},)"
      R"("smClockRateKHz":{},"memClockRateKHz":{},"l2CacheSize":{},"cudaDeviceId":0,"deviceVer":{},"driverVer":13000,)"
      R"("deviceName":"NVIDIA {}"}})",
      is_a100   ? 108
      : is_b200 ? 148
                : 132,
      is_a100 ? 166912 : 232448,
      is_a100   ? 85899345920
      : is_b200 ? 193273528320
                : 150754820096,
      is_a100   ? 1410000
      : is_b200 ? 1965000
                : 1980000,
      is_a100   ? 1593000
      : is_b200 ? 3996000
                : 3201000,
      is_a100   ? 41943040
      : is_b200 ? 132644864
                : 62914560,
      is_a100   ? 800
      : is_b200 ? 1000
                : 900,
      is_a100   ? "A100"
      : is_b200 ? "B200"
                : "H200");
}

}  // namespace emulation
