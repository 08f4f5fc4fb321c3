// Where each buffer of a program lies in its one arena: buffers whose lifetimes do not meet share addresses.
#pragma once

#include <cstddef>
#include <vector>

namespace muster::model {

/// A buffer that must be kept from time `first` to time `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< per buffer, 64-byte aligned (sizes are rounded up)
  std::size_t arena_bytes = 0;
};

/// Largest first, each at the lowest address free during its whole life (greedy by size; Pisarchyk and Lee, "Efficient
/// memory management for deep neural net inference", 2020).
MemoryPlan plan_memory(const std::vector<Lifetime>& buffers);

}  // namespace muster::model
