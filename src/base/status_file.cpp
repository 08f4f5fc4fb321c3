#include <muster/base/status_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace muster {

void write_status_file(int exit_code) noexcept {
  const char* path = std::getenv("MUSTER_STATUS_FILE");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return;  // somebody was first, or the launcher falls back on mpirun's own exit code
  const char text[] = {static_cast<char>('0' + exit_code / 10), static_cast<char>('0' + exit_code % 10), '\n'};
  const bool has_two_digits = exit_code >= 10;
  [[maybe_unused]] const auto written =
      ::write(file, has_two_digits ? text : text + 1, has_two_digits ? sizeof text : sizeof text - 1);
  ::close(file);
}

}  // namespace muster
