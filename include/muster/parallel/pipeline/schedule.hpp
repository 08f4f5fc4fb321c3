// In which order the stages of a pipeline work. A replica's network is cut into P stages, one rank each; its share of
// the batch goes through them in M micro-batches. Pure tables: no rank, no message. The messages are implied: forward m
// of a stage begins with the values of m from the stage before and ends with values for the stage behind; backward m
// begins with their gradient from behind and ends with a gradient for the stage before.
//
//   gpipe   all forwards, then all backwards (Huang et al. 2019). A stage holds the activations of all M micro-batches.
//   1f1b    as soon as a micro-batch's gradient is there it goes back (Narayanan et al. 2019, PipeDream-Flush):
//           stage s of P holds at most P - s micro-batches. One stage: forward and backward in turn, plain
//           accumulation.
//
//   P = 2, M = 3, 1f1b       stage 0 | F0 F1 .. B0 F2 B1 .. B2           backward takes as long as forward here
//                            stage 1 | .. F0 B0 F1 B1 F2 B2 ..
//
// Backwards run in the order of the micro-batches in both, so that gradients are summed along the same tree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::parallel {

enum class PipelineKind : std::uint8_t { gpipe, one_forward_one_backward };
/// "gpipe" or "1f1b".
PipelineKind pipeline_kind(const std::string& name);

struct PipelineStep {
  bool is_forward = true;
  std::int64_t micro_batch = 0;
  bool operator==(const PipelineStep&) const = default;
};

/// What stage `stage` of `stages` does, in order: every micro-batch forward and backward once. Throws Error(usage) for
/// fewer micro-batches than stages.
std::vector<PipelineStep> pipeline_schedule(PipelineKind kind, int stages, int stage, std::int64_t micro_batches);

/// Most micro-batches whose activations the stage holds at a time.
std::int64_t most_in_flight(std::span<const PipelineStep> schedule);

/// When each step of each stage runs, where every stage begins its next step as soon as what it needs is there and
/// messages take no time.
struct PipelineTimes {
  std::vector<std::vector<double>> begin;  ///< [stage][position in its schedule]
  double length = 0;
  double bubble_share = 0;  ///< share of the stages' time together in which they wait
};
/// forward_cost: time of a stage's forward pass of one micro-batch; backward takes `backward_ratio` times as long.
/// With equal costs the bubble's share is (P - 1) / (M + P - 1).
PipelineTimes pipeline_times(PipelineKind kind, std::int64_t micro_batches, std::span<const double> forward_cost,
                             double backward_ratio = 2);

/// One line per stage: "stage 0 | F0 F1 .. B0 B0", a cell for a forward pass, two for a backward pass, all stages
/// equally fast.
std::vector<std::string> pipeline_timeline(PipelineKind kind, int stages, std::int64_t micro_batches);

}  // namespace muster::parallel
