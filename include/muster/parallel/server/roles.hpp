// Who is what in a job with parameter servers: of n ranks the first S are servers (rank 0 coordinates), the others
// workers; the last `spares` of the workers wait until one is gone.
#pragma once

#include <cstdint>

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

/// What the servers' windows have room for besides versions of the model.
struct WindowSizes {
  int optimizer_slots = 0;
  int parts = 1;                ///< subtrees (grains.hpp) that a worker's share of a gradient may consist of
  std::int64_t statistics = 0;  ///< doubles of a worker's share of one sum of statistics
  bool keeps_pulled = false;    ///< the weights that a commit was computed at go with it (delay compensation)
};

}  // namespace muster::parallel
