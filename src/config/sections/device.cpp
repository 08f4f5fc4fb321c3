// device: what computes.
#include "config/table.hpp"

namespace muster::config {

std::vector<ConfigKey> device_keys() {
  return {
      key<Config>(
          "device.kind", [](Config & c) -> auto& { return c.device.kind; }, choice({"auto", "cpu", "cuda", "ref"}),
          "auto: cuda where it works, else cpu; ref: plain loops, slow, to check others against"),
      key<Config>(
          "device.threads", [](Config & c) -> auto& { return c.device.threads; }, at_least_or("auto", 1),
          "compute threads per rank; auto: the cores this rank may use, 1 in bitwise mode"),
      key<Config>(
          "device.precision", [](Config & c) -> auto& { return c.device.precision; }, choice({"fp32"}, {"bf16"}),
          "of activations and weights"),
      key<Config>(
          "device.tune", [](Config & c) -> auto& { return c.device.tune; }, {},
          "time alternative kernels at the start and keep the faster (not with bitwise)"),
  };
}

}  // namespace muster::config
