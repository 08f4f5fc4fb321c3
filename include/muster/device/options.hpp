// The `device:` section of the config.
#pragma once

#include <string>

namespace muster::device {

struct DeviceOptions {
  std::string kind = "auto";       ///< auto | cpu | cuda | ref
  int threads = 0;                 ///< compute threads per rank; 0: auto (the affinity mask; 1 in bitwise mode)
  std::string precision = "fp32";  ///< fp32 | bf16
  bool tune = false;               ///< time alternative kernels at start and keep the faster (not with bitwise)
};

}  // namespace muster::device
