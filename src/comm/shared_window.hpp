// The window of the ranks of one node, over shared memory that the group has made.
#pragma once

#include <muster/comm/communicator.hpp>
#include <muster/comm/window.hpp>

#include <memory>

namespace muster::comm {

/// segment: made over the group whose ranks the window's calls name; `rank` is this one's.
std::unique_ptr<Window> make_shared_window(std::unique_ptr<SharedSegment> segment, int rank);

}  // namespace muster::comm
