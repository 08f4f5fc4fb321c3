// The word between a job and its launcher script: the first rank that ends in error writes its exit code into the file
// that MUSTER_STATUS_FILE names, in the end rank 0 writes 0 (jobs/mpirun/muster-run).
#pragma once

namespace muster {

/// Does nothing where no file is named or one is written already. May be called from a signal handler.
void write_status_file(int exit_code) noexcept;

}  // namespace muster
