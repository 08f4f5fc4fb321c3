// Memory of one node on an MPI window; used with plain loads and stores and C++ atomics, the window only owns it.
#pragma once

#include <muster/comm/communicator.hpp>

#include <mpi.h>

#include <memory>

namespace muster::comm {

/// Collective over `node`.
std::unique_ptr<SharedSegment> make_shared_segment(MPI_Comm node, std::size_t bytes_mine);

}  // namespace muster::comm
