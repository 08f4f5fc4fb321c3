// Who works on which trial: a lock on the file `claim` in its directory. It ends with its holder, however that ends,
// and holds between all processes that share the file system, so jobs need not know of each other.
#pragma once

#include <muster/base/file_lock.hpp>

#include <filesystem>
#include <optional>

namespace muster::train {

/// Nothing where another process has it. Makes the directory. Throws Error(checkpoint), also where the file system has
/// no locks.
std::optional<FileLock> try_claim(const std::filesystem::path& trial_directory);

/// The same, waiting for another process that holds it for moments only. Throws Error(checkpoint) after limit_s.
FileLock wait_for_claim(const std::filesystem::path& directory, double limit_s);

}  // namespace muster::train
