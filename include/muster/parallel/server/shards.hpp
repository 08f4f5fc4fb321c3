// Who is what, and which server keeps which part of the model.
//
// Of n ranks the first S are servers (rank 0 coordinates), the others workers; the last `spares` of the workers wait
// until one is gone. The model is one vector: the parameters as the backward pass orders them, then the running values
// (means and variances of batch norm). It is cut into S shards of equal bytes; every shard has one writer, its server.
//
//   elements   |  parameters ............................ | running |
//   shards     |  server 0      |  server 1      |  server 2       |      boundaries on cache lines
#pragma once

#include <muster/base/ids.hpp>
#include <muster/optim/optimizer.hpp>

#include <cstdint>
#include <vector>

namespace muster::parallel {

struct Roles {
  int servers = 1;
  int workers = 1;  ///< spares included
  int spares = 0;

  int ranks() const { return servers + workers; }
  bool is_server(int rank) const { return rank < servers; }
  int worker_of(int rank) const { return rank - servers; }
  int rank_of_worker(int worker) const { return servers + worker; }
};

/// The model as one vector, cut over the servers.
struct Shards {
  std::int64_t parameters = 0;  ///< elements of the parameter arena
  std::int64_t running = 0;     ///< elements of the running values behind it
  std::vector<Range> ranges;    ///< per server; they tile [0, parameters + running)

  std::int64_t elements() const { return parameters + running; }
  std::int64_t largest() const;
  /// The largest shard's bytes divided by the mean's.
  double imbalance() const;
};

/// What the servers' windows have room for besides versions of the model.
struct WindowSizes {
  int optimizer_slots = 0;
  int parts = 1;                ///< subtrees (grains.hpp) that a worker's share of a gradient may consist of
  std::int64_t statistics = 0;  ///< doubles of a worker's share of one sum of statistics
};

/// Cuts at multiples of `granule` elements. whole_parameters: boundaries fall between parameters only (for optimizers
/// that look at a parameter as a whole: lars, lamb); then shards are as equal as the parameters allow.
Shards cut_shards(std::int64_t parameters, std::int64_t running, int servers, bool whole_parameters,
                  const std::vector<optim::ParamRun>& runs, std::int64_t granule = 16);

/// The runs inside [shard.begin, min(shard.end, parameters)), their elements relative to shard.begin.
std::vector<optim::ParamRun> runs_of_shard(const Range& shard, const std::vector<optim::ParamRun>& runs);

}  // namespace muster::parallel
