#include <muster/base/error.hpp>
#include <muster/base/file_lock.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace muster {

void FileLockTraits::release(int descriptor) noexcept { ::close(descriptor); }

FileLock::FileLock(const std::filesystem::path& path) {
  std::error_code none;
  const int flags = std::filesystem::is_directory(path, none) ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT;
  descriptor_.reset(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!descriptor_)
    fail(ExitCode::checkpoint, "cannot open {} to lock it: {}; set run.directory to a place where you may write",
         path.string(), std::strerror(errno));
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0) {
    state_ = State::held;
    return;
  }
  state_ = errno == EWOULDBLOCK ? State::busy : State::unknown;
  descriptor_.reset();
}

}  // namespace muster
