#include <muster/parallel/data/shard_gather.hpp>

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <algorithm>

namespace muster::parallel {
namespace {

constexpr int shard_tag = 0;

// Names of the waits, made once: they are part of every step.
const std::string weights_gather = "gathering of the updated weights";
const std::string state_gather = "gathering of the optimizer state";

}  // namespace

ShardGather::ShardGather(comm::Communicator& data, std::vector<Range> shards)
    : ranks_(data.split(0, data.rank(), "optimizer shards")), shards_(std::move(shards)) {
  MUSTER_CHECK_EQ(shards_.size(), static_cast<std::size_t>(ranks_->size()));
  for (std::size_t r = 0; r < shards_.size(); ++r) MUSTER_CHECK_EQ(shards_[r].begin, r == 0 ? 0 : shards_[r - 1].end);
}

std::span<float> ShardGather::cut(std::span<float> arena, int rank) const {
  const Range& shard = shards_[static_cast<std::size_t>(rank)];
  return arena.subspan(static_cast<std::size_t>(shard.begin), static_cast<std::size_t>(shard.size()));
}

void ShardGather::send(std::span<const float> values, int rank) {
  if (values.empty()) return;
  requests_.push_back(ranks_->send(comm::bytes_of(values), rank, shard_tag));
  peers_.push_back(rank);
}

void ShardGather::receive(std::span<float> values, int rank) {
  if (values.empty()) return;
  requests_.push_back(ranks_->receive(comm::bytes_of(values), rank, shard_tag));
  peers_.push_back(rank);
}

void ShardGather::wait(const std::string& what) {
  ranks_->wait_all(requests_, peers_, what);
  requests_.clear();
  peers_.clear();
}

double ShardGather::to_all(std::span<float> arena) {
  MUSTER_CHECK_EQ(static_cast<std::int64_t>(arena.size()), shards_.back().end);
  const Stopwatch watch;
  const int me = ranks_->rank();
  for (int r = 0; r < ranks_->size(); ++r)
    if (r != me) receive(cut(arena, r), r);
  for (int r = 0; r < ranks_->size(); ++r)
    if (r != me) send(cut(arena, me), r);
  wait(weights_gather);
  return watch.elapsed_s();
}

std::vector<float> ShardGather::to_root(std::span<const float> mine) {
  const int me = ranks_->rank();
  MUSTER_CHECK_EQ(static_cast<std::int64_t>(mine.size()), shards_[static_cast<std::size_t>(me)].size());
  std::vector<float> arena;
  if (me == 0) {
    arena.resize(static_cast<std::size_t>(shards_.back().end));
    std::ranges::copy(mine, cut(arena, 0).begin());
    for (int r = 1; r < ranks_->size(); ++r) receive(cut(arena, r), r);
  } else {
    send(mine, 0);
  }
  wait(state_gather);
  return arena;
}

}  // namespace muster::parallel
