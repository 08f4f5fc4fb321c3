// What a directory gives that checkpoints, run directories and sweeps need of it.
#pragma once

#include <cstdint>
#include <string>

namespace muster::doctor {

struct DirectoryFacts {
  std::string path;
  std::string problem;           ///< why nothing could be measured, with the system's reason; "" else
  double write_bytes_per_s = 0;  ///< 64 MiB in one file, until they are on the disk
  double sync_s = 0;             ///< a small file, until it is on the disk under its name
  bool has_locks = false;        ///< flock, which keeps two runs out of one directory
  bool reads_hdf5 = false;       ///< an HDF5 file written there reads back the same
  std::uint64_t free_bytes = 0;
};

/// Leaves nothing behind. Does not throw.
DirectoryFacts measure_directory(const std::string& path);

}  // namespace muster::doctor
