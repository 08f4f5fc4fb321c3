#include <muster/parallel/grid.hpp>

#include <muster/base/check.hpp>

namespace muster::parallel {

GridPlace place_in_grid(const ParallelOptions& options, int ranks, int rank) {
  const int stages = options.pipeline;
  MUSTER_CHECK(stages >= 1 && ranks % stages == 0, "{} stages of {} ranks", stages, ranks);
  return {ranks / stages, rank / stages, stages, rank % stages};
}

Grid::Grid(comm::Communicator& world, const ParallelOptions& options)
    : world_(world), place_(place_in_grid(options, world.size(), world.rank())) {
  if (place_.stages == 1) return;
  data_ = world.split(place_.stage, place_.replica, "data");
  replica_ = world.split(place_.replica, place_.stage, "stages");
  links_ = StageLinks(*replica_);
}

}  // namespace muster::parallel
