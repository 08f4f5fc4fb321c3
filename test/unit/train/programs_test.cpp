// Memory of a replica's programs: one arena for each micro-batch in flight, whatever the sizes that come there, and one
// scratch. Arenas are worked out by hand.
#include "unit/model/networks.hpp"

#include <gtest/gtest.h>

#include <muster/model/stages.hpp>
#include <muster/train/programs.hpp>

namespace muster::train {
namespace {

using parallel::PipelineKind;

/// The first of two stages on plain loops: one dense layer 16 -> 64 of samples of one cache line. Its arena holds from
/// the forward to the backward pass its input and its output, and while backward runs the output's gradient:
/// 64 + 256 + 256 bytes per row; the input wants no gradient, and the loops no saved values.
constexpr std::size_t row_bytes = 64 + 256 + 256;
/// Scratch is never less than a cache line.
constexpr std::size_t scratch_bytes = 64;

std::size_t arena_bytes(PipelineKind kind, std::int64_t micro_batches, const std::vector<std::int64_t>& batches) {
  const model::Network whole = model::build_network({{16}, {model::test::dense(64), model::test::dense(3)}, {}, 0, ""});
  const model::StageCut cut{{0, 1, 2}, {0, 0}};
  const model::Network stage = model::stage_network(whole, cut, 0);
  device::DeviceOptions device;
  device.kind = "ref";
  device.threads = 1;
  const auto backend = device::make_backend(device);
  ReplicaPrograms programs(stage, *backend, {micro_batches, 1, 1, 0}, {}, batches.front(), {}, {2, 0, kind});
  model::ParameterStore store(stage, *backend, programs.param_descs());
  std::vector<float> gradients(static_cast<std::size_t>(store.elements()));
  programs.bind(store, gradients, batches);
  for (std::int64_t batch : batches) {  // all micro-batches are there, those in flight together apart
    const BatchPlan& plan = programs.plan_for(batch);
    std::int64_t rows = 0;
    for (const Wave& wave : plan.waves) rows += wave.front().program ? wave.front().program->rows() : 0;
    EXPECT_EQ(rows, batch);
    for (std::size_t m = 1; m < plan.waves.size(); ++m) {
      const model::Program* program = plan.waves[m].front().program;
      if (program) {
        EXPECT_NE(program, plan.waves[m - 1].front().program) << m;
      }
    }
  }
  return programs.arena_bytes() - scratch_bytes;
}

constexpr auto one_by_one = PipelineKind::one_forward_one_backward;

TEST(ReplicaPrograms, EqualMicroBatches) {
  EXPECT_EQ(arena_bytes(PipelineKind::gpipe, 8, {32}), 8 * 4 * row_bytes);
  EXPECT_EQ(arena_bytes(one_by_one, 8, {32}), 2 * 4 * row_bytes);  // the first of two stages holds two
}

TEST(ReplicaPrograms, UnevenMicroBatches) {
  // 10 rows in 4: 2 3 2 3. All at once, or those of the even and of the odd places in turn.
  EXPECT_EQ(arena_bytes(PipelineKind::gpipe, 4, {10}), (2 + 3 + 2 + 3) * row_bytes);
  EXPECT_EQ(arena_bytes(one_by_one, 4, {10}), (2 + 3) * row_bytes);
  // 11 rows in 5: 2 2 2 2 3, in places 0 1 0 1 0.
  EXPECT_EQ(arena_bytes(one_by_one, 5, {11}), (3 + 2) * row_bytes);
}

TEST(ReplicaPrograms, ATailCostsNothing) {
  EXPECT_EQ(arena_bytes(PipelineKind::gpipe, 8, {32, 13}), 8 * 4 * row_bytes);
  EXPECT_EQ(arena_bytes(one_by_one, 8, {32, 13}), 2 * 4 * row_bytes);
  EXPECT_EQ(arena_bytes(one_by_one, 8, {32, 3}), 2 * 4 * row_bytes);  // not even a row for each micro-batch
  // 10 rows in 4: 2 3 2 3; 7 in 4: 1 2 2 2.
  EXPECT_EQ(arena_bytes(one_by_one, 4, {10, 7}), (2 + 3) * row_bytes);
}

}  // namespace
}  // namespace muster::train
