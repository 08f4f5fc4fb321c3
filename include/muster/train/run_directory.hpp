// The directory of a run and the files that muster puts there: config.yaml, log.txt, metrics.jsonl, checkpoints/,
// errors/, events.out.tfevents.*.
#pragma once

#include <muster/base/file_lock.hpp>

#include <filesystem>
#include <string>

namespace muster::train {

enum class RunStart { fresh, resumed };

struct OpenRun {
  RunStart start = RunStart::fresh;
  FileLock lock;  ///< keeps others out as long as it lives
};

/// Called by rank 0. Creates the directory exclusively. An existing one with muster's files needs is_resumed or
/// is_forced (which removes what muster made, nothing else). Throws Error(usage) naming the flags, or where another
/// process trains there, Error(checkpoint) where it cannot be made.
[[nodiscard]] OpenRun open_run_directory(const std::filesystem::path& directory, bool is_resumed, bool is_forced);

}  // namespace muster::train
