#include <muster/parallel/data/grains.hpp>

#include <muster/base/check.hpp>

#include <algorithm>
#include <bit>

namespace muster::parallel {
namespace {

/// A node of the tree before cutting at the last grain: [first, first + span), span a power of two.
struct Node {
  std::int64_t first;
  std::int64_t span;
  Subtree cut(std::int64_t grains) const { return {first, std::min(first + span, grains)}; }
  Node left() const { return {first, span / 2}; }
  Node right() const { return {first + span / 2, span / 2}; }
};

Node root_of(std::int64_t grains) {
  return {0, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(grains)))};
}

void collect(Node node, std::int64_t grains, Range owned, std::vector<Subtree>& found) {
  const Subtree here = node.cut(grains);
  if (here.first >= here.last || here.last <= owned.begin || here.first >= owned.end) return;
  if (owned.begin <= here.first && here.last <= owned.end) {
    found.push_back(here);
    return;
  }
  collect(node.left(), grains, owned, found);
  collect(node.right(), grains, owned, found);
}

/// Adds up the parts below `node`, of which `next` is the first; returns the part that holds the sum.
int add_up(Node node, std::int64_t grains, const std::vector<Subtree>& parts, std::size_t& next,
           std::vector<Addition>& done) {
  const Subtree here = node.cut(grains);
  MUSTER_CHECK(next < parts.size() && parts[next].first == here.first && node.span > 0,
               "grains [{}, {}) are not tiled by parts of the tree", here.first, here.last);
  if (parts[next] == here) return static_cast<int>(next++);
  const int left = add_up(node.left(), grains, parts, next, done);
  if (node.right().first >= here.last) return left;
  const int right = add_up(node.right(), grains, parts, next, done);
  done.push_back({left, right});
  return left;
}

/// The moves of one subtree's grains: the sums of complete nodes stand on a stack, as the digits of a binary counter.
/// buffer_of(depth): the buffer of the stack's place.
template <class BufferOf>
void stack_moves(std::int64_t size, const BufferOf& buffer_of, std::vector<GrainMoves>& moves) {
  for (std::int64_t i = 0; i < size; ++i) {
    const int depth = std::popcount(static_cast<std::uint64_t>(i));
    const bool is_last = i + 1 == size;
    int merges = is_last ? depth : std::countr_one(static_cast<std::uint64_t>(i));
    GrainMoves move;
    if (merges == 0 && buffer_of(depth) != 0) move.copy_to = buffer_of(depth);
    for (int from = depth; merges > 0; --merges, --from)
      move.additions.push_back({buffer_of(from - 1), from == depth ? 0 : buffer_of(from)});
    moves.push_back(std::move(move));
  }
}

int stack_height(std::int64_t size) {
  int height = 1;
  for (std::int64_t i = 0; i < size; ++i) {
    const bool is_kept = i + 1 < size && i % 2 == 0;  // an odd or last grain is added from buffer 0 at once
    if (is_kept) height = std::max(height, std::popcount(static_cast<std::uint64_t>(i)) + 1);
  }
  return height;
}

}  // namespace

Range GrainPlan::grains_of(int of_replica) const {
  return {grains * of_replica / replicas, grains * (of_replica + 1) / replicas};
}

Range GrainPlan::rows_of_grain(std::int64_t grain, std::int64_t batch) const {
  const std::int64_t units = (batch + unit - 1) / unit;
  const auto boundary = [&](std::int64_t g) { return std::min(units * g / grains * unit, batch); };
  return {boundary(grain), boundary(grain + 1)};
}

Range GrainPlan::rows_of_replica(int of_replica, std::int64_t batch) const {
  const Range owned = grains_of(of_replica);
  if (owned.empty()) {
    const std::int64_t at = owned.begin < grains ? rows_of_grain(owned.begin, batch).begin : batch;
    return {at, at};
  }
  return {rows_of_grain(owned.begin, batch).begin, rows_of_grain(owned.end - 1, batch).end};
}

std::vector<std::int64_t> GrainPlan::micro_batch_sizes(std::int64_t batch) const {
  std::vector<std::int64_t> sizes;
  const Range owned = grains_of(replica);
  for (std::int64_t g = owned.begin; g < owned.end; ++g)
    if (const std::int64_t rows = rows_of_grain(g, batch).size(); rows > 0) sizes.push_back(rows);
  std::ranges::sort(sizes, std::greater<>());
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

std::vector<Subtree> maximal_subtrees(std::int64_t grains, Range owned) {
  std::vector<Subtree> found;
  if (grains > 0) collect(root_of(grains), grains, owned, found);
  return found;
}

std::vector<Addition> additions(std::int64_t grains, const std::vector<Subtree>& parts) {
  if (parts.empty()) return {};
  Node node = root_of(grains);  // the smallest node that holds all parts
  for (;;) {
    const std::int64_t middle = node.right().first;
    if (node.span > 1 && parts.back().last <= middle) node = node.left();
    else if (node.span > 1 && parts.front().first >= middle) node = node.right();
    else break;
  }
  std::vector<Addition> done;
  std::size_t next = 0;
  add_up(node, grains, parts, next, done);
  MUSTER_CHECK_EQ(next, parts.size());
  return done;
}

Accumulation plan_accumulation(std::int64_t grains, Range owned) {
  const std::vector<Subtree> subtrees = maximal_subtrees(grains, owned);
  Accumulation plan;
  int height = 1;
  for (std::size_t j = 0; j < subtrees.size(); ++j) {
    const bool stays =
        j + 1 == subtrees.size() && subtrees[j].last - subtrees[j].first == 1;  // nothing will overwrite it
    plan.of_subtree.push_back(stays ? 0 : plan.buffers++);
    height = std::max(height, stack_height(subtrees[j].last - subtrees[j].first));
  }
  const int first_extra = plan.buffers;
  plan.buffers += height - 1;
  for (std::size_t j = 0; j < subtrees.size(); ++j) {
    const auto buffer_of = [&](int depth) { return depth == 0 ? plan.of_subtree[j] : first_extra + depth - 1; };
    stack_moves(subtrees[j].last - subtrees[j].first, buffer_of, plan.moves);
  }
  return plan;
}

}  // namespace muster::parallel
