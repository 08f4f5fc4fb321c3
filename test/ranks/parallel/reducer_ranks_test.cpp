// Gradient sums: the same bits as the recursive tree on one rank, for every rank count, transport, grain count and
// size.
#include "parallel/data/bfloat16.hpp"
#include "ranks/environment.hpp"
#include "ranks/ranks.hpp"
#include "unit/parallel/tree.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <optional>
#include <random>
#include <thread>

MUSTER_RANKS(Transports, 1, 2, 3, 4, 7);
MUSTER_RANKS(Reducer, 1, 2, 3, 4);
MUSTER_RANKS(Overlap, 2, 3, 4);
MUSTER_RANKS(Choice, 1, 2, 3, 4);

namespace muster::parallel {
namespace {

enum class Transport { shared, flat, node_first };
constexpr Transport all_transports[] = {Transport::shared, Transport::flat, Transport::node_first};

const char* name_of(Transport transport) {
  switch (transport) {
    case Transport::shared:
      return "shared";
    case Transport::flat:
      return "flat";
    case Transport::node_first:
      return "node first";
  }
  return "?";
}

/// Makes a reducer over `data` on this transport; nodes of two ranks for node_first.
std::unique_ptr<GradientReducer> make(Transport transport, comm::Communicator& data, const GrainPlan& plan,
                                      const ReducerOptions& options) {
  if (transport == Transport::shared) return make_mirrored(data, plan, options);
  const test::ScopedVariable choice("MUSTER_REDUCE", transport == Transport::flat ? "flat" : "hierarchical");
  std::optional<test::ScopedVariable> nodes;
  if (transport == Transport::node_first) nodes.emplace("MUSTER_FAKE_NODE_SIZE", "2");
  return make_multi_worker(data, plan, options);
}

GrainPlan plan_for(comm::Communicator& data, std::int64_t grains) { return {grains, 1, data.size(), data.rank()}; }

/// Uneven buckets over [0, elements), from the front.
std::vector<Slice> buckets_of(std::int64_t elements) {
  std::vector<Slice> buckets;
  for (std::int64_t begin = 0, size = 7; begin < elements; size = size * 5 + 1) {
    const std::int64_t end = std::min(elements, begin + size);
    buckets.push_back({begin, end});
    begin = end;
  }
  return buckets;
}

/// One step as the training loop does it: grains in order, each written into buffer 0.
void announce(GradientReducer& reducer, GrainAccumulator& accumulator, const GrainPlan& plan,
              const std::vector<Slice>& buckets, std::int64_t step) {
  reducer.begin_step(step);
  const Range owned = plan.grains_of(plan.replica);
  if (owned.empty())
    for (const Slice& bucket : buckets) {
      accumulator.push_zero(bucket);
      reducer.ready(bucket);
    }
  for (std::int64_t grain = owned.begin; grain < owned.end; ++grain)
    for (const Slice& bucket : buckets) {
      for (std::int64_t i = bucket.begin; i < bucket.end; ++i)
        reducer.partial(0)[static_cast<std::size_t>(i)] = test::leaf(grain, i, step);
      accumulator.push(grain, bucket);
      if (grain + 1 == owned.end) reducer.ready(bucket);
      else reducer.progress();
    }
}

/// The sums of `step` element by element.
std::vector<float> expected_sums(std::int64_t grains, std::int64_t elements, std::int64_t step) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < elements; ++i)
    sums.push_back(test::tree_total<float>(grains, [&](std::int64_t g) { return test::leaf(g, i, step); }));
  return sums;
}

TEST(Transports, GiveTheTreesBits) {
  const auto data = test::world();
  for (std::int64_t grains : {1, 2, 3, 4, 6, 8, 13})
    for (std::int64_t elements : {1, 17, 5003}) {
      const GrainPlan plan = plan_for(*data, grains);
      const auto buckets = buckets_of(elements);
      const std::vector<std::vector<float>> expected{expected_sums(grains, elements, 0),
                                                     expected_sums(grains, elements, 1)};
      for (Transport transport : all_transports) {
        const auto reducer = make(transport, *data, plan, {elements, Wire::fp32, 1});
        GrainAccumulator accumulator(plan, *reducer, 1);
        for (std::int64_t step = 0; step < 4; ++step) {
          announce(*reducer, accumulator, plan, buckets, step % 2);
          reducer->finish();
          for (std::int64_t i = 0; i < elements; ++i)
            ASSERT_EQ(reducer->result()[static_cast<std::size_t>(i)],
                      expected[static_cast<std::size_t>(step % 2)][static_cast<std::size_t>(i)])
                << name_of(transport) << ", " << grains << " grains, " << elements << " elements, step " << step
                << ", element " << i;
        }
        reducer->close();
      }
    }
}

TEST(Transports, SurviveRanksOutOfStep) {
  const auto data = test::world();
  constexpr std::int64_t elements = 300;
  const GrainPlan plan = plan_for(*data, 8);
  const auto buckets = buckets_of(elements);
  for (Transport transport : all_transports) {
    const auto reducer = make(transport, *data, plan, {elements, Wire::fp32, 1});
    GrainAccumulator accumulator(plan, *reducer, 1);
    std::mt19937 random(static_cast<unsigned>(17 + data->rank()));
    for (std::int64_t step = 0; step < 40; ++step) {
      announce(*reducer, accumulator, plan, buckets, step);
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      reducer->finish();
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      const auto expected = expected_sums(8, elements, step);
      ASSERT_TRUE(std::ranges::equal(reducer->result(), expected)) << name_of(transport) << ", step " << step;
    }
    reducer->close();
  }
}

TEST(Transports, MoveLargeGradientsWithThreads) {
  const auto data = test::world();
  constexpr std::int64_t elements = 700'001;
  const GrainPlan plan = plan_for(*data, data->size());
  for (Transport transport : all_transports) {
    const auto reducer = make(transport, *data, plan, {elements, Wire::fp32, 2});
    for (std::int64_t step = 0; step < 2; ++step) {
      reducer->begin_step(step);
      for (std::int64_t i = 0; i < elements; ++i)
        reducer->partial(0)[static_cast<std::size_t>(i)] = static_cast<float>(i % 1000 * (data->rank() + 1) + step);
      reducer->ready({0, 400'000});
      reducer->progress();
      reducer->ready({400'000, elements});
      reducer->finish();
      const std::int64_t n = data->size();
      for (std::int64_t i = 0; i < elements; ++i)
        ASSERT_EQ(reducer->result()[static_cast<std::size_t>(i)],
                  static_cast<float>(i % 1000 * (n * (n + 1) / 2) + n * step))
            << i;
    }
    reducer->close();
  }
}

TEST(Transports, RoundToBfloat16Alike) {
  const auto data = test::world();
  constexpr std::int64_t elements = 2001;
  const GrainPlan plan = plan_for(*data, data->size());
  const auto rounded = [](float value) { return from_bfloat16(to_bfloat16(value)); };
  for (Transport transport : all_transports) {
    const auto reducer = make(transport, *data, plan, {elements, Wire::bf16, 1});
    GrainAccumulator accumulator(plan, *reducer, 1);
    for (std::int64_t step = 0; step < 2; ++step) {
      announce(*reducer, accumulator, plan, buckets_of(elements), step);
      reducer->finish();
      for (std::int64_t i = 0; i < elements; ++i) {
        float expected = test::leaf(0, i, step);  // one rank: nothing is sent, nothing is rounded
        if (data->size() > 1)
          expected = rounded(
              test::tree_total<float>(data->size(), [&](std::int64_t g) { return rounded(test::leaf(g, i, step)); }));
        ASSERT_EQ(reducer->result()[static_cast<std::size_t>(i)], expected) << name_of(transport) << ", element " << i;
      }
    }
    reducer->close();
  }
}

TEST(Reducer, CopiesNothingOnOneRankWithOneGrain) {
  const auto data = test::world();
  const GrainPlan plan = plan_for(*data, data->size());
  const auto reducer = make_mirrored(*data, plan, {100, Wire::fp32, 1});
  EXPECT_EQ(reducer->partials(), 1);
  EXPECT_EQ(reducer->result().data() == reducer->partial(0).data(), data->size() == 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reducer->partial(0).data()) % 64, 0u);
  reducer->close();
}

TEST(Reducer, ARankWithoutRowsContributesZero) {
  const auto data = test::world();
  const GrainPlan plan = plan_for(*data, 2 * data->size());
  constexpr std::int64_t elements = 65;
  for (Transport transport : all_transports) {
    const auto reducer = make(transport, *data, plan, {elements, Wire::fp32, 1});
    GrainAccumulator accumulator(plan, *reducer, 1);
    reducer->begin_step(0);
    std::ranges::fill(reducer->partial(0), 1e30f);  // what an earlier step left
    if (data->rank() == 0)
      for (std::int64_t grain = 0; grain < 2; ++grain) {
        std::ranges::fill(reducer->partial(0), static_cast<float>(grain + 2));
        accumulator.push(grain, {0, elements});
      }
    else accumulator.push_zero({0, elements});
    reducer->ready({0, elements});
    reducer->finish();
    for (float sum : reducer->result()) ASSERT_EQ(sum, 5.0f) << name_of(transport);
    reducer->close();
  }
}

TEST(Reducer, SendsAsManyMessagesAsItSays) {
  const auto data = test::world();
  constexpr std::int64_t elements = 16 * 12 * 4;  // slices of equal size for 1 to 4 ranks
  const int others = data->size() - 1;
  for (Transport transport : {Transport::shared, Transport::flat}) {
    const GrainPlan plan = plan_for(*data, data->size());
    const auto reducer = make(transport, *data, plan, {elements, Wire::fp32, 1});
    for (std::int64_t step = 0; step < 2; ++step) {
      const comm::Traffic before = data->traffic();
      reducer->begin_step(step);
      reducer->ready({0, elements / 2});
      reducer->ready({elements / 2, elements});
      reducer->finish();
      const comm::Traffic after = data->traffic();
      const bool is_sent = transport == Transport::flat;
      EXPECT_EQ(after.messages - before.messages, is_sent ? 2 * 2 * others : 0);
      EXPECT_EQ(after.bytes - before.bytes, is_sent ? 2 * others * elements / data->size() * 4 : 0);
    }
    reducer->close();
  }
}

TEST(Reducer, RefusesWrongUse) {
  const auto data = test::world();
  const GrainPlan plan = plan_for(*data, data->size());
  const auto reducer = make_mirrored(*data, plan, {100, Wire::fp32, 1});
  reducer->begin_step(0);
  EXPECT_THROW(reducer->ready({50, 101}), Error);
  EXPECT_THROW(reducer->ready({5, 5}), Error);
  GrainAccumulator accumulator(plan, *reducer, 1);
  EXPECT_THROW(accumulator.push(data->rank() + 1, {0, 1}), Error);
  reducer->finish();
  data->barrier("before the end");
  reducer->close();
}

/// Drives the reducer without finish() until its first result is there, at most some seconds.
void await_first_result(GradientReducer& reducer, float expected) {
  const Deadline deadline("first result", 10);
  while (std::as_const(reducer).result()[0] != expected && !deadline.is_over()) {
    reducer.progress();
    std::this_thread::yield();
  }
}

TEST(Overlap, BucketsAreSummedBeforeFinish) {
  const auto data = test::world();
  const GrainPlan plan = plan_for(*data, data->size());
  for (Transport transport : all_transports) {
    const auto reducer = make(transport, *data, plan, {64, Wire::fp32, 1});
    std::ranges::fill(reducer->partial(0), static_cast<float>(data->rank() + 1));
    reducer->begin_step(0);
    reducer->ready({0, 32});  // the rest of the backward pass is still to come
    const auto expected = static_cast<float>(data->size() * (data->size() + 1) / 2);
    await_first_result(*reducer, expected);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(reducer->result()[i], expected) << name_of(transport) << ' ' << i;
    // Those who have seen it may still be needed by those who have not.
    const auto everybody = data->split(0, data->rank(), "overlap");
    everybody->barrier("all have seen the first bucket");
    reducer->ready({32, 64});
    const ReduceTimes times = reducer->finish();
    EXPECT_GT(times.hidden_s, 0.0);
    for (float sum : reducer->result()) EXPECT_EQ(sum, expected) << name_of(transport);
    reducer->close();
  }
}

TEST(Choice, IsDescribed) {
  const auto data = test::world();
  const GrainPlan plan = plan_for(*data, data->size());
  const auto description = [&](Transport transport) {
    const auto reducer = make(transport, *data, plan, {64, Wire::fp32, 1});
    const std::string text = reducer->describe();
    reducer->close();
    return text;
  };
  const std::string ranks = std::to_string(data->size()) + " ranks";
  const bool is_one = data->size() == 1;
  EXPECT_EQ(description(Transport::shared), is_one ? "one rank, nothing is sent" : "shared memory, " + ranks);
  EXPECT_EQ(description(Transport::flat), is_one ? "one rank, nothing is sent" : "messages between " + ranks);
  if (data->size() > 2) {
    EXPECT_EQ(description(Transport::node_first), "shared memory on 2 nodes, messages between them, " + ranks);
  }
}

TEST(Choice, IsMeasuredOnSeveralNodes) {
  const auto data = test::world();
  const test::ScopedVariable nodes("MUSTER_FAKE_NODE_SIZE", "2");
  const auto reducer = make_multi_worker(*data, plan_for(*data, data->size()), {100'000, Wire::fp32, 1});
  const bool is_measured = reducer->describe().find("per MiB") != std::string::npos;
  EXPECT_EQ(is_measured, data->size() > 2) << reducer->describe();
  reducer->close();
}

TEST(Choice, FallsBackWhereNodesDoNotHoldConsecutiveRanks) {
  const auto all = test::world();
  const auto data = all->split(0, all->rank() % 2 * 10 + all->rank(), "interleaved");  // even ranks first
  const test::ScopedVariable nodes("MUSTER_FAKE_NODE_SIZE", "2");
  const GrainPlan plan = plan_for(*data, data->size());
  const auto reducer = make_multi_worker(*data, plan, {10, Wire::fp32, 1});
  if (data->size() > 3) {
    EXPECT_NE(reducer->describe().find("not consecutive"), std::string::npos) << reducer->describe();
  }
  reducer->close();
  if (data->size() < 4) return;
  const test::ScopedVariable choice("MUSTER_REDUCE", "hierarchical");
  try {
    make_multi_worker(*data, plan, {10, Wire::fp32, 1});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    EXPECT_NE(std::string(error.what()).find("consecutive"), std::string::npos) << error.what();
  }
}

TEST(Choice, MirroredNeedsOneNode) {
  const auto data = test::world();
  const test::ScopedVariable nodes("MUSTER_FAKE_NODE_SIZE", "1");
  if (data->size() == 1) return;
  try {
    make_mirrored(*data, plan_for(*data, data->size()), {10, Wire::fp32, 1});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::launch);
    EXPECT_NE(std::string(error.what()).find("multi_worker_mirrored"), std::string::npos) << error.what();
  }
}

TEST(Choice, RefusesUnknownNames) {
  const auto data = test::world();
  const test::ScopedVariable choice("MUSTER_REDUCE", "ring");
  try {
    make_multi_worker(*data, plan_for(*data, data->size()), {10, Wire::fp32, 1});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace muster::parallel
