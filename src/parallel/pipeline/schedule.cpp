#include <muster/parallel/pipeline/schedule.hpp>

#include <muster/base/check.hpp>
#include <muster/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::parallel {

PipelineKind pipeline_kind(const std::string& name) {
  if (name == "gpipe") return PipelineKind::gpipe;
  if (name == "1f1b") return PipelineKind::one_forward_one_backward;
  fail(ExitCode::usage, "unknown pipeline schedule '{}': expected gpipe or 1f1b", name);
}

std::vector<PipelineStep> pipeline_schedule(PipelineKind kind, int stages, int stage, std::int64_t micro_batches) {
  MUSTER_CHECK(0 <= stage && stage < stages, "stage {} of {}", stage, stages);
  if (micro_batches < stages)
    fail(ExitCode::usage, "a pipeline of {} stages needs at least {} micro-batches, found {}", stages, stages,
         micro_batches);
  // Forwards before the first backward; from then on one of each as long as there are forwards.
  const std::int64_t ahead = kind == PipelineKind::gpipe ? micro_batches : std::int64_t{stages} - stage;
  std::vector<PipelineStep> steps;
  std::int64_t forwards = 0;
  for (std::int64_t backwards = 0; backwards < micro_batches; ++backwards) {
    while (forwards < std::min(backwards + ahead, micro_batches)) steps.push_back({true, forwards++});
    steps.push_back({false, backwards});
  }
  return steps;
}

std::int64_t most_in_flight(std::span<const PipelineStep> schedule) {
  std::int64_t held = 0, most = 0;
  for (const PipelineStep& step : schedule) {
    held += step.is_forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

PipelineTimes pipeline_times(PipelineKind kind, std::int64_t micro_batches, std::span<const double> forward_cost,
                             double backward_ratio) {
  const auto stages = forward_cost.size();
  const auto count = static_cast<std::size_t>(micro_batches);
  std::vector<std::vector<PipelineStep>> schedules;
  for (std::size_t s = 0; s < stages; ++s)
    schedules.push_back(pipeline_schedule(kind, static_cast<int>(stages), static_cast<int>(s), micro_batches));

  constexpr double never = -1;
  std::vector<std::vector<double>> forward_end(stages, std::vector<double>(count, never));
  std::vector<std::vector<double>> backward_end = forward_end;
  std::vector<double> free_at(stages, 0.0);
  PipelineTimes times;
  times.begin.resize(stages);
  /// Lets the stage do what it can; false: nothing.
  const auto advance = [&](std::size_t s) {
    bool has_moved = false;
    while (times.begin[s].size() < schedules[s].size()) {
      const PipelineStep step = schedules[s][times.begin[s].size()];
      const auto m = static_cast<std::size_t>(step.micro_batch);
      double ready = 0;
      if (step.is_forward && s > 0) ready = forward_end[s - 1][m];
      if (!step.is_forward && s + 1 < stages) ready = backward_end[s + 1][m];
      if (ready == never) break;
      const double begin = std::max(free_at[s], ready);
      times.begin[s].push_back(begin);
      free_at[s] = begin + forward_cost[s] * (step.is_forward ? 1 : backward_ratio);
      (step.is_forward ? forward_end : backward_end)[s][m] = free_at[s];
      has_moved = true;
    }
    return has_moved;
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t s = 0; s < stages; ++s) has_moved = advance(s) || has_moved;
  }
  for (std::size_t s = 0; s < stages; ++s) MUSTER_CHECK_EQ(times.begin[s].size(), schedules[s].size());

  times.length = *std::ranges::max_element(free_at);
  const double work = std::accumulate(forward_cost.begin(), forward_cost.end(), 0.0) * (1 + backward_ratio) *
                      static_cast<double>(micro_batches);
  if (times.length > 0) times.bubble_share = 1 - work / (times.length * static_cast<double>(stages));
  return times;
}

std::vector<std::string> pipeline_timeline(PipelineKind kind, int stages, std::int64_t micro_batches) {
  const std::vector<double> equal(static_cast<std::size_t>(stages), 1.0);
  const PipelineTimes times = pipeline_times(kind, micro_batches, equal, 2);
  const std::size_t digits = std::to_string(micro_batches - 1).size();
  std::vector<std::string> lines;
  for (int s = 0; s < stages; ++s) {
    const auto schedule = pipeline_schedule(kind, stages, s, micro_batches);
    std::vector<std::string> cells(static_cast<std::size_t>(std::lround(times.length)), std::string(digits + 1, '.'));
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      const auto begin = static_cast<std::size_t>(std::lround(times.begin[static_cast<std::size_t>(s)][i]));
      const std::string cell =
          fmt::format("{}{:<{}}", schedule[i].is_forward ? 'F' : 'B', schedule[i].micro_batch, digits);
      for (std::size_t k = 0; k < (schedule[i].is_forward ? 1u : 2u); ++k) cells[begin + k] = cell;
    }
    std::string line = fmt::format("stage {} |", s);
    for (const std::string& cell : cells) line += " " + cell;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace muster::parallel
