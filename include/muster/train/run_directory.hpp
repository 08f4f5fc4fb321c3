// The directory of a run and the files that muster puts there: config.yaml, log.txt, metrics.jsonl, checkpoints/,
// errors/.
#pragma once

#include <filesystem>
#include <string>

namespace muster::train {

enum class RunStart { fresh, resumed };

/// Called by rank 0. Creates the directory exclusively. An existing one with muster's files needs is_resumed or
/// is_forced (which removes what muster made, nothing else). Holds a lock on it until the process ends. Throws
/// Error(usage) naming the flags, or where another process trains there, Error(checkpoint) where it cannot be made.
RunStart open_run_directory(const std::filesystem::path& directory, bool is_resumed, bool is_forced);

}  // namespace muster::train
