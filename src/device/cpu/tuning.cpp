#include "device/cpu/tuning.hpp"

#include "device/host_buffer.hpp"

#include <muster/base/clock.hpp>

#include <algorithm>
#include <memory>

namespace muster::device::cpu {

double best_time_s(BoundPrimitive primitive, const Arguments& arguments) {
  constexpr int runs = 5;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const auto& [argument, desc] : arguments) {
    buffers.push_back(allocate_host(desc.get_size()));
    primitive.bind(argument, desc, buffers.back()->data());
  }
  buffers.push_back(allocate_host(primitive.scratch_bytes()));
  primitive.bind_scratch(buffers.back()->data());
  primitive.run();  // first touch of code and data
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const Stopwatch watch;
    primitive.run();
    best = std::min(best, watch.elapsed_s());
  }
  return best;
}

}  // namespace muster::device::cpu
