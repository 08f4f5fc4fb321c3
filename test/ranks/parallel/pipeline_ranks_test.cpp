// Stages talking to each other: messages in order whatever their sizes and however far one stage is ahead, tied
// gradients equal on all holders, sums over the stages.
#include "ranks/ranks.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/parallel/grid.hpp>
#include <muster/parallel/pipeline/stage_links.hpp>
#include <muster/parallel/pipeline/tied_gradients.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

MUSTER_RANKS(Pipeline, 1, 2, 3, 4, 6);

namespace muster::parallel {
namespace {

constexpr std::int64_t messages = 20;

/// Sizes 1, 70001, 3, 0, ... by message; the largest are beyond what MPI sends at once.
std::int64_t size_of_message(std::int64_t m) {
  constexpr std::int64_t sizes[] = {1, 70'001, 3, 0, 512};
  return sizes[m % 5];
}
float value(std::int64_t m, std::int64_t element, int stage) {
  return static_cast<float>(m * 1000 + element % 997) + 0.25f * static_cast<float>(stage);
}

/// A late rank is late by this much; who waits for it has waited for nearly as long.
constexpr double late_s = 0.1;
void be_late() { std::this_thread::sleep_for(std::chrono::duration<double>(late_s)); }

TEST(Pipeline, MessagesComeInOrder) {
  const auto replica = test::world();
  StageLinks links(*replica);
  EXPECT_EQ(links.stages(), replica->size());
  // Everybody receives all values and passes them on with its number added; then all gradients come back.
  for (std::int64_t m = 0; m < messages; ++m) {
    const std::int64_t size = size_of_message(m);
    std::vector<float> carried(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) carried[static_cast<std::size_t>(i)] = value(m, i, 0);
    if (!links.is_first()) {
      const auto got = links.values_in.take(size, m + 1 < messages ? size_of_message(m + 1) : 0);
      ASSERT_EQ(static_cast<std::int64_t>(got.size()), size);
      carried.assign(got.begin(), got.end());
      for (float& x : carried) x += 0.25f;
    }
    for (std::int64_t i = 0; i < size; ++i)
      ASSERT_EQ(carried[static_cast<std::size_t>(i)], value(m, i, links.stage())) << m;
    if (links.is_last()) continue;
    std::ranges::copy(carried, links.values_out.room(size).begin());
    links.values_out.send();
  }
  for (std::int64_t m = 0; m < messages; ++m) {
    if (!links.is_last()) {
      const auto got = links.gradients_in.take(5, 5 * (m + 1 < messages));
      for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(got[i], static_cast<float>(m * (links.stage() + 1)));
    }
    if (links.is_first()) continue;
    std::ranges::fill(links.gradients_out.room(5), static_cast<float>(m * links.stage()));
    links.gradients_out.send();
  }
  links.finish();
}

TEST(Pipeline, WaitsAreCounted) {
  const auto replica = test::world();
  StageLinks links(*replica);
  replica->barrier("start of the test");
  if (links.is_first()) be_late();
  if (!links.is_first()) links.values_in.take(3, 0);
  if (!links.is_last()) {
    std::ranges::fill(links.values_out.room(3), 1.0f);
    links.values_out.send();
  }
  links.finish();
  if (!links.is_first()) {
    EXPECT_GT(links.values_in.waited_s(), late_s / 2);
  }

  replica->barrier("the sums begin");
  const double before = links.waited_s();
  if (links.is_last()) be_late();
  StageSums sums;
  links.add_up(sums);
  if (!links.is_last()) {
    EXPECT_GT(links.waited_s() - before, late_s / 2);
  }
}

TEST(Pipeline, MessagesArriveWhileStagesCompute) {
  const auto replica = test::world();
  StageLinks links(*replica);
  constexpr std::int64_t large = 1 << 20;  // MPI asks before it sends so much
  const auto send = [](Outbox& to, std::int64_t elements, float value) {
    std::ranges::fill(to.room(elements), value);
    to.send();
  };
  // A first round starts the receives of the second.
  if (!links.is_last()) send(links.values_out, 1, 1);
  if (!links.is_first()) links.values_in.take(1, large);
  if (!links.is_first()) send(links.gradients_out, 1, 1);
  if (!links.is_last()) links.gradients_in.take(1, 1);
  // Nobody waits: what is asked for between ops alone brings the values, and the answer to them.
  if (!links.is_last()) send(links.values_out, large, 7);
  bool has_values = links.is_first(), has_answer = links.is_last();
  for (const Stopwatch watch; !has_values || !has_answer;) {
    ASSERT_LT(watch.elapsed_s(), 20);
    links.progress();
    if (!has_values && links.values_in.progress()) {
      has_values = true;
      send(links.gradients_out, 1, 1);
    }
    has_answer = has_answer || links.gradients_in.progress();
    std::this_thread::yield();
  }
  if (!links.is_first()) {
    EXPECT_EQ(links.values_in.take(large, 0)[large - 1], 7);
  }
  if (!links.is_last()) {
    EXPECT_EQ(links.gradients_in.take(1, 0)[0], 1);
  }
  links.finish();
}

TEST(Pipeline, SumsOverTheStages) {
  const auto replica = test::world();
  StageLinks links(*replica);
  const int stages = replica->size(), stage = replica->rank();
  StageSums sums{0.5 * (stage + 1), stage, 1, links.is_last() ? 24 : 0, stage * 3, 2, 0};
  links.add_up(sums);
  EXPECT_EQ(sums.squared_norm, 0.25 * stages * (stages + 1));
  EXPECT_EQ(sums.stop_requests, stages * (stages - 1) / 2);
  EXPECT_EQ(sums.bad_losses, stages);
  EXPECT_EQ(sums.rows, 24);
  EXPECT_EQ(sums.loss_units, 3 * stages * (stages - 1) / 2);
  EXPECT_EQ(sums.correct, 2 * stages);
  EXPECT_EQ(sums.top_k_correct, 0);
}

TEST(Pipeline, TiedGradientsAreEqualOnAllHolders) {
  const auto replica = test::world();
  const int stages = replica->size(), me = replica->rank();
  // One weight is held by all stages, one by the first and the last; each stage has it elsewhere, others between.
  std::vector<int> all, ends{0};
  for (int s = 0; s < stages; ++s) all.push_back(s);
  if (stages > 1) ends.push_back(stages - 1);
  const std::int64_t begin = 16 * (me + 1), elements = begin + 100 + 16 + 33;
  std::vector<TiedParameter> params{{{begin, begin + 100}, all}};
  const bool is_end = me == 0 || me + 1 == stages;
  if (is_end) params.push_back({{begin + 116, elements}, ends});
  TiedGradients tied(*replica, params, elements);

  std::int64_t counted = 0;
  for (const Range& range : tied.counted()) counted += range.size();
  const std::int64_t held_before = (me > 0 ? 100 : 0) + (me > 0 && is_end ? 33 : 0);
  EXPECT_EQ(counted, elements - held_before);

  const auto own = [](std::int64_t i, int stage) {
    return std::sqrt(static_cast<float>(i + 2)) * (1.1f * static_cast<float>(stage) + 1);
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<float> gradient(static_cast<std::size_t>(elements), static_cast<float>(round));
    for (std::int64_t i = 0; i < 100; ++i) gradient[static_cast<std::size_t>(begin + i)] = own(i, me);
    for (std::int64_t i = 0; is_end && i < 33; ++i)
      gradient[static_cast<std::size_t>(begin + 116 + i)] = own(i, me + 7);
    replica->barrier("a round begins");
    if (me == 0 && round == 1) be_late();
    const double seconds = tied.add_up(gradient);
    if (me != 0 && round == 1) {
      EXPECT_GT(seconds, late_s / 2);
    }
    for (std::int64_t i = 0; i < elements; ++i) {
      float expected = static_cast<float>(round);
      if (i >= begin && i < begin + 100) {
        expected = 0;
        for (int s : all) expected += own(i - begin, s);
      } else if (is_end && i >= begin + 116) {
        expected = 0;
        for (int s : ends) expected += own(i - begin - 116, s + 7);
      } else if (i >= begin + 116) {
        continue;
      }
      ASSERT_EQ(tied.summed()[static_cast<std::size_t>(i)], expected) << i;
    }
  }
}

TEST(Pipeline, TheGridOfTheRanks) {
  const auto world = test::world();
  for (int stages : {1, 2, 3}) {
    if (world->size() % stages != 0) continue;
    ParallelOptions options;
    options.pipeline = stages;
    Grid grid(*world, options);
    EXPECT_EQ(grid.place().replica, world->rank() / stages);
    EXPECT_EQ(grid.place().stage, world->rank() % stages);
    EXPECT_EQ(grid.data().size(), world->size() / stages);
    EXPECT_EQ(grid.data().rank(), grid.place().replica);
    EXPECT_EQ(grid.links().stage(), grid.place().stage);
    EXPECT_EQ(grid.links().stages(), stages);
    ASSERT_EQ(grid.replica() != nullptr, stages > 1);
    for (int r = 0; r < grid.data().size(); ++r)
      EXPECT_EQ(grid.data().world_rank(r).value, r * stages + grid.place().stage);
  }
}

}  // namespace
}  // namespace muster::parallel
