#include <muster/model/memory_plan.hpp>

#include <algorithm>
#include <numeric>

namespace muster::model {
namespace {

constexpr std::size_t alignment = 64;
std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  MemoryPlan plan{std::vector<std::size_t>(buffers.size(), 0), 0};
  std::vector<std::size_t> placed;  // in order of address
  for (std::size_t i : order) {
    if (buffers[i].bytes == 0) continue;
    std::size_t offset = 0;
    for (std::size_t other : placed) {
      if (!meet(buffers[i], buffers[other])) continue;
      if (offset + rounded(buffers[i].bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + rounded(buffers[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + rounded(buffers[i].bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  i);
  }
  return plan;
}

}  // namespace muster::model
