#include "train/sweep/claims.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/pause.hpp>

#include <utility>

namespace muster::train {

std::optional<FileLock> try_claim(const std::filesystem::path& trial_directory) {
  std::error_code error;  // told by the lock
  std::filesystem::create_directories(trial_directory, error);
  const std::filesystem::path file = trial_directory / "claim";
  FileLock lock(file);
  if (lock.state() == FileLock::State::unknown)
    fail(ExitCode::checkpoint, "cannot lock {}: a sweep needs a file system with locks (flock) in run.directory",
         file.string());
  if (lock.state() == FileLock::State::busy) return std::nullopt;
  return lock;
}

FileLock wait_for_claim(const std::filesystem::path& directory, double limit_s) {
  const Deadline deadline("lock", limit_s);
  while (!deadline.is_over()) {
    if (auto claim = try_claim(directory)) return *std::move(claim);
    pass_time(deadline.elapsed_s());
  }
  fail(ExitCode::checkpoint, "another process holds the lock on {} for {} s; is it stopped?",
       (directory / "claim").string(), limit_s);
}

}  // namespace muster::train
