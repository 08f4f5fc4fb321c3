// The window over MPI: for groups on several hosts, and to try that path on one.
#pragma once

#include "comm/mpi/runtime.hpp"

#include <muster/comm/window.hpp>

#include <memory>

namespace muster::comm {

/// Collective over `group`. name: the group's, for messages.
std::unique_ptr<Window> make_mpi_window(std::shared_ptr<Runtime> runtime, MPI_Comm group, std::size_t bytes_mine,
                                        std::size_t piece_bytes);

}  // namespace muster::comm
