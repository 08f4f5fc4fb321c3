// The model as one vector, cut into shards of equal bytes, each with one owner: a parameter server, or a replica that
// keeps its part of the optimizer's state. The vector is the parameters as the backward pass orders them, then the
// running values (means and variances of batch norm).
//
//   elements   |  parameters ............................ | running |
//   shards     |  owner 0       |  owner 1       |  owner 2        |      boundaries on cache lines
#pragma once

#include <muster/base/ids.hpp>
#include <muster/optim/optimizer.hpp>

#include <cstdint>
#include <vector>

namespace muster::parallel {

struct Shards {
  std::int64_t parameters = 0;  ///< elements of the parameter arena
  std::int64_t running = 0;     ///< elements of the running values behind it
  std::vector<Range> ranges;    ///< per owner; they tile [0, parameters + running)

  std::int64_t elements() const { return parameters + running; }
  std::int64_t largest() const;
  /// The largest shard's bytes divided by the mean's.
  double imbalance() const;
};

/// Cuts at multiples of `granule` elements. whole_parameters: boundaries fall between parameters only (for optimizers
/// that look at a parameter as a whole: lars, lamb); then shards are as equal as the parameters allow.
Shards cut_shards(std::int64_t parameters, std::int64_t running, int owners, bool whole_parameters,
                  const std::vector<optim::ParamRun>& runs, std::int64_t granule = 16);

/// The runs inside [shard.begin, min(shard.end, parameters)), their elements relative to shard.begin.
std::vector<optim::ParamRun> runs_of_shard(const Range& shard, const std::vector<optim::ParamRun>& runs);

}  // namespace muster::parallel
