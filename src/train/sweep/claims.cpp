#include "train/sweep/claims.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/pause.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace muster::train {

Claim::~Claim() { ::close(descriptor_); }

std::unique_ptr<Claim> try_claim(const std::filesystem::path& trial_directory) {
  std::error_code error;
  std::filesystem::create_directories(trial_directory, error);
  const std::filesystem::path file = trial_directory / "claim";
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    fail(ExitCode::checkpoint, "cannot open {}: {}; set run.directory to a place where you may write", file.string(),
         std::strerror(errno));
  auto claim = std::make_unique<Claim>(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return claim;
  if (errno == EWOULDBLOCK) return nullptr;
  fail(ExitCode::checkpoint, "cannot lock {}: {}; a sweep needs a file system with locks (flock) in run.directory",
       file.string(), std::strerror(errno));
}

std::unique_ptr<Claim> wait_for_claim(const std::filesystem::path& directory, double limit_s) {
  const Deadline deadline("lock", limit_s);
  while (!deadline.is_over()) {
    if (auto claim = try_claim(directory)) return claim;
    pass_time(deadline.elapsed_s());
  }
  fail(ExitCode::checkpoint, "another process holds the lock on {} for {} s; is it stopped?",
       (directory / "claim").string(), limit_s);
}

}  // namespace muster::train
