#include "doctor/storage.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/dataset/store.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace muster::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr int pieces = 16;

/// A folder of our own below the directory, removed at the end.
class Scratch {
 public:
  explicit Scratch(const fs::path& directory) : path_(directory / (".muster-doctor-" + std::to_string(::getpid()))) {
    fs::create_directory(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

class Descriptor {
 public:
  explicit Descriptor(const fs::path& path) : value_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (value_ < 0) fail(ExitCode::checkpoint, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(value_); }
  int operator*() const { return value_; }

 private:
  int value_;
};

double write_speed(const fs::path& path) {
  const Descriptor file(path);
  std::vector<char> piece(piece_bytes);
  for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 7 % 251);  // nothing to compress away
  const Stopwatch watch;
  for (int i = 0; i < pieces; ++i)
    for (std::size_t at = 0; at < piece.size();) {
      const auto written = ::write(*file, piece.data() + at, piece.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(ExitCode::checkpoint, "cannot write: {}", std::strerror(errno));
      at += static_cast<std::size_t>(written);
    }
  if (::fsync(*file) != 0) fail(ExitCode::checkpoint, "cannot write: {}", std::strerror(errno));
  return static_cast<double>(piece_bytes) * pieces / watch.elapsed_s();
}

double sync_time(const fs::path& path) {
  double best_s = 1e30;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    write_file_atomic(path, "a small file\n");
    best_s = std::min(best_s, watch.elapsed_s());
  }
  return best_s;
}

/// Two openings exclude each other, as two processes do.
bool are_locks_kept(const fs::path& path) {
  const Descriptor one(path), other(path);
  return ::flock(*one, LOCK_EX | LOCK_NB) == 0 && ::flock(*other, LOCK_EX | LOCK_NB) != 0;
}

bool reads_back(const fs::path& path) {
  const std::vector<float> values{1, 2, 3};
  try {
    dataset::StoreWriter writer(path);
    writer.put("values", values);
    writer.close();
    return dataset::StoreReader(path).floats("values") == values;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

DirectoryFacts measure_directory(const std::string& path) {
  DirectoryFacts facts;
  facts.path = path;
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) {
    facts.problem = std::strerror(errno);
    return facts;
  }
  facts.free_bytes = std::uint64_t{status.f_bavail} * status.f_frsize;
  try {
    const Scratch scratch(path);
    facts.sync_s = sync_time(scratch / "small");
    facts.has_locks = are_locks_kept(scratch / "lock");
    facts.reads_hdf5 = reads_back(scratch / "values.h5");
    facts.write_bytes_per_s = write_speed(scratch / "large");
  } catch (const Error& error) {
    facts.problem = error.what();
  } catch (const fs::filesystem_error& error) {
    facts.problem = error.code().message();
  }
  return facts;
}

}  // namespace muster::doctor
