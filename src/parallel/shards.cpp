#include <muster/parallel/shards.hpp>

#include <muster/base/check.hpp>

#include <algorithm>
#include <cmath>

namespace muster::parallel {
namespace {

/// The end of the parameter nearest to `at`.
std::int64_t nearest_boundary(std::int64_t at, const std::vector<optim::ParamRun>& runs) {
  std::int64_t best = 0;
  for (const optim::ParamRun& run : runs)
    if (std::abs(run.elements.end - at) < std::abs(best - at)) best = run.elements.end;
  return best;
}

}  // namespace

std::int64_t Shards::largest() const {
  std::int64_t most = 0;
  for (const Range& range : ranges) most = std::max(most, range.size());
  return most;
}

double Shards::imbalance() const {
  const double mean = static_cast<double>(elements()) / static_cast<double>(ranges.size());
  return mean > 0 ? static_cast<double>(largest()) / mean : 1.0;
}

Shards cut_shards(std::int64_t parameters, std::int64_t running, int owners, bool whole_parameters,
                  const std::vector<optim::ParamRun>& runs, std::int64_t granule) {
  MUSTER_CHECK(owners > 0 && parameters >= 0 && running >= 0, "{} owners, {} + {} elements", owners, parameters,
               running);
  Shards shards{parameters, running, {}};
  const std::int64_t total = parameters + running;
  std::int64_t begin = 0;
  for (int s = 0; s < owners; ++s) {
    std::int64_t end = total;
    if (s + 1 < owners) {
      end = (total * (s + 1) / owners + granule / 2) / granule * granule;
      if (whole_parameters && end < parameters) end = nearest_boundary(end, runs);
      end = std::clamp(end, begin, total);
    }
    shards.ranges.push_back({begin, end});
    begin = end;
  }
  return shards;
}

std::vector<optim::ParamRun> runs_of_shard(const Range& shard, const std::vector<optim::ParamRun>& runs) {
  std::vector<optim::ParamRun> inside;
  for (const optim::ParamRun& run : runs) {
    const Range cut{std::max(run.elements.begin, shard.begin), std::min(run.elements.end, shard.end)};
    if (cut.begin < cut.end)
      inside.push_back({run.name, {cut.begin - shard.begin, cut.end - shard.begin}, run.has_decay});
  }
  return inside;
}

}  // namespace muster::parallel
