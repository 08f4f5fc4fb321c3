// Moves the gradients of grains into the partial sums that the fixed tree asks for, block by block.
#include <muster/parallel/data/reducer.hpp>

#include <muster/base/check.hpp>

#include <algorithm>
#include <cstring>

namespace muster::parallel {
namespace {

// A block goes through all its moves while it is in the cache.
constexpr std::int64_t block = 4096;
constexpr std::int64_t parallel_from = 1 << 16;

}  // namespace

GrainAccumulator::GrainAccumulator(const GrainPlan& plan, GradientReducer& reducer, int threads)
    : owned_(plan.grains_of(plan.replica)),
      accumulation_(plan_accumulation(plan.grains, owned_)),
      reducer_(reducer),
      threads_(threads) {
  MUSTER_CHECK_EQ(accumulation_.buffers, reducer.partials());
}

void GrainAccumulator::push(std::int64_t grain, Slice slice) {
  MUSTER_CHECK(owned_.begin <= grain && grain < owned_.end, "grain {} of [{}, {})", grain, owned_.begin, owned_.end);
  const GrainMoves& moves = accumulation_.moves[static_cast<std::size_t>(grain - owned_.begin)];
  if (slice.empty() || (moves.copy_to < 0 && moves.additions.empty())) return;
  const std::int64_t blocks = (slice.size() + block - 1) / block;
#pragma omp parallel for num_threads(threads_) schedule(static) if (threads_ > 1 && slice.size() >= parallel_from)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t begin = slice.begin + b * block;
    const std::int64_t n = std::min(block, slice.end - begin);
    if (moves.copy_to >= 0)
      std::memcpy(reducer_.partial(moves.copy_to).data() + begin, reducer_.partial(0).data() + begin,
                  static_cast<std::size_t>(n) * sizeof(float));
    for (const Addition& addition : moves.additions) {
      float* into = reducer_.partial(addition.into).data() + begin;
      const float* from = reducer_.partial(addition.from).data() + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) into[i] += from[i];
    }
  }
}

void GrainAccumulator::push_zero(Slice slice) {
  for (int buffer : accumulation_.of_subtree)
    std::fill_n(reducer_.partial(buffer).data() + slice.begin, slice.size(), 0.0f);
}

}  // namespace muster::parallel
