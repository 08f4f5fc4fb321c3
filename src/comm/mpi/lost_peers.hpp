// What Open MPI does of itself when the process at the other end of a connection dies, and must not.
#pragma once

namespace muster::comm {

/// Right after MPI_Init, once: the death of a peer ends neither this process nor the launcher.
void outlive_lost_peers();

}  // namespace muster::comm
