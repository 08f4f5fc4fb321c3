#include "parallel/data/node_memory.hpp"

#include <muster/base/check.hpp>

#include <new>

namespace muster::parallel {
namespace {

constexpr std::int64_t flag_floats = 4096 / sizeof(float);
// Equal offsets within a page make a store wait for loads of the other buffers (4 KiB aliasing): buffers start
// staggered.
constexpr std::int64_t stagger_floats = 16 * 17;

std::int64_t stride_of(std::int64_t elements) { return (elements + 15) / 16 * 16 + stagger_floats; }

}  // namespace

NodeMemory::NodeMemory(comm::Communicator* node, const std::vector<int>& shared_buffers, int node_sums,
                       std::int64_t elements)
    : elements_(elements), stride_(stride_of(elements)), node_sums_(node_sums) {
  const int mine = node == nullptr ? 0 : node->rank();
  const auto floats_of = [&](int local_rank) {
    const int extra = local_rank == 0 ? node_sums + 1 : 0;
    return flag_floats + (shared_buffers[static_cast<std::size_t>(local_rank)] + extra) * stride_;
  };
  if (node == nullptr) own_ = HostArray(floats_of(0));
  else segment_ = node->share(static_cast<std::size_t>(floats_of(mine)) * sizeof(float));
  for (int r = 0; r < static_cast<int>(shared_buffers.size()); ++r) {
    float* base = segment_ ? reinterpret_cast<float*>(segment_->part(r).data()) : own_.span().data();
    if (r == mine) new (base) Flags{};
    parts_.push_back({std::launder(reinterpret_cast<Flags*>(base)), base + flag_floats + r % 4 * 64});
  }
  extra_ = parts_[0].floats + shared_buffers[0] * stride_;
  if (node != nullptr) node->barrier("start of the shared gradient memory");
}

void NodeMemory::close() {
  if (segment_) segment_->close();
  segment_.reset();
  parts_.clear();
}

}  // namespace muster::parallel
