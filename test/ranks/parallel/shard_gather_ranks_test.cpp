// Shards of uneven sizes, empty ones among them, reach everybody bit by bit; the root puts the state together.
#include "ranks/ranks.hpp"

#include <muster/base/error.hpp>
#include <muster/parallel/data/shard_gather.hpp>

#include <cmath>

MUSTER_RANKS(ShardGather, 1, 2, 3, 4, 7);

namespace muster::parallel {
namespace {

/// Sizes 5, 0, 70001, 17, 0, 1, 12 by rank.
std::vector<Range> uneven_shards(int ranks) {
  constexpr std::int64_t sizes[] = {5, 0, 70'001, 17, 0, 1, 12};
  std::vector<Range> shards;
  std::int64_t begin = 0;
  for (int r = 0; r < ranks; ++r) {
    shards.push_back({begin, begin + sizes[r]});
    begin += sizes[r];
  }
  return shards;
}

float value(int rank, std::int64_t element, std::int64_t step) {
  return std::sqrt(static_cast<float>(element + 1)) * static_cast<float>(rank + 1) + static_cast<float>(step);
}

TEST(ShardGather, BringsEveryShardToAll) {
  const auto data = test::world();
  const auto shards = uneven_shards(data->size());
  ShardGather gather(*data, shards);
  const Range mine = shards[static_cast<std::size_t>(data->rank())];
  for (std::int64_t step = 0; step < 3; ++step) {
    std::vector<float> arena(static_cast<std::size_t>(shards.back().end), -1.0f);
    for (std::int64_t i = mine.begin; i < mine.end; ++i)
      arena[static_cast<std::size_t>(i)] = value(data->rank(), i, step);
    EXPECT_GE(gather.to_all(arena), 0.0);
    for (int r = 0; r < data->size(); ++r)
      for (std::int64_t i = shards[static_cast<std::size_t>(r)].begin; i < shards[static_cast<std::size_t>(r)].end; ++i)
        ASSERT_EQ(arena[static_cast<std::size_t>(i)], value(r, i, step)) << "shard " << r << ", element " << i;
  }
}

TEST(ShardGather, PutsTheStateTogetherOnTheRoot) {
  const auto data = test::world();
  const auto shards = uneven_shards(data->size());
  ShardGather gather(*data, shards);
  const Range mine = shards[static_cast<std::size_t>(data->rank())];
  std::vector<float> own;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) own.push_back(value(data->rank(), i, 0));
  const std::vector<float> whole = gather.to_root(own);
  ASSERT_EQ(static_cast<std::int64_t>(whole.size()), data->rank() == 0 ? shards.back().end : 0);
  if (data->rank() != 0) return;
  for (int r = 0; r < data->size(); ++r)
    for (std::int64_t i = shards[static_cast<std::size_t>(r)].begin; i < shards[static_cast<std::size_t>(r)].end; ++i)
      ASSERT_EQ(whole[static_cast<std::size_t>(i)], value(r, i, 0)) << "shard " << r << ", element " << i;
}

TEST(ShardGather, SendsOneMessageToEachOther) {
  const auto data = test::world();
  std::vector<Range> shards;
  for (int r = 0; r < data->size(); ++r) shards.push_back({r * 100, r * 100 + 100});
  ShardGather gather(*data, shards);
  std::vector<float> arena(static_cast<std::size_t>(shards.back().end));
  const comm::Traffic before = data->traffic();
  gather.to_all(arena);
  const comm::Traffic after = data->traffic();
  EXPECT_EQ(after.messages - before.messages, data->size() - 1);
  EXPECT_EQ(after.bytes - before.bytes, (data->size() - 1) * 400);
}

TEST(ShardGather, RefusesShardsThatDoNotTile) {
  const auto data = test::world();
  std::vector<Range> shards;
  for (int r = 0; r < data->size(); ++r) shards.push_back({r * 10 + 1, r * 10 + 10});
  EXPECT_THROW(ShardGather(*data, shards), Error);
}

}  // namespace
}  // namespace muster::parallel
