#include "comm/process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

namespace muster::comm {
namespace {

/// Reads a small file into `buffer`; length, or -1.
long read_small(const char* path, char* buffer, std::size_t size) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const long length = ::read(file, buffer, size - 1);
  ::close(file);
  buffer[length > 0 ? length : 0] = '\0';
  return length;
}

struct Stat {
  char state = '?';
  std::int64_t start_ticks = 0;
};

/// State and start time of a process: fields 3 and 22, counted from behind the command name, which may hold anything.
bool read_stat(std::int64_t pid, Stat& stat) {
  char path[48];
  char text[1024];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  if (read_small(path, text, sizeof text) <= 0) return false;
  const char* field = std::strrchr(text, ')');
  if (field == nullptr) return false;
  field += 2;
  stat.state = *field;
  for (int skipped = 3; skipped < 22; ++skipped) {
    field = std::strchr(field, ' ');
    if (field == nullptr) return false;
    ++field;
  }
  stat.start_ticks = std::atoll(field);
  return true;
}

std::int64_t hash_of_boot() {
  char text[64];
  if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0) return 0;
  return static_cast<std::int64_t>(std::hash<std::string_view>{}(text));
}

}  // namespace

ProcessIdentity identify_self() {
  ProcessIdentity self;
  self.pid = ::getpid();
  Stat stat;
  if (read_stat(self.pid, stat)) self.start_ticks = stat.start_ticks;
  struct ::stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) self.pid_namespace = static_cast<std::int64_t>(info.st_ino);
  self.boot_hash = hash_of_boot();
  return self;
}

bool is_alive(const ProcessIdentity& process) {
  static const ProcessIdentity self = identify_self();
  if (process.pid_namespace != self.pid_namespace || process.boot_hash != self.boot_hash || self.start_ticks == 0)
    return true;
  Stat stat;
  if (!read_stat(process.pid, stat)) return false;
  return stat.state != 'Z' && stat.state != 'X' && stat.start_ticks == process.start_ticks;
}

std::string host_name() {
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

cpu_set_t allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

int online_cores() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace muster::comm
