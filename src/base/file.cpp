#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/handle.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace muster {
namespace {

struct DescriptorTraits {
  using type = int;
  static constexpr type empty() { return -1; }
  static void release(type descriptor) noexcept { ::close(descriptor); }
};
class Descriptor : public UniqueHandle<DescriptorTraits> {
 public:
  explicit Descriptor(int value) { reset(value); }
};

[[noreturn]] void fail_file(int exit_code, const char* action, const std::filesystem::path& path) {
  fail(static_cast<ExitCode>(exit_code), "cannot {} {}: {}", action, path.string(), std::strerror(errno));
}

constexpr int checkpoint_code = static_cast<int>(ExitCode::checkpoint);

void sync(const std::filesystem::path& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) fail_file(checkpoint_code, "sync", path);
}

}  // namespace

void write_file_atomic(const std::filesystem::path& path, std::string_view content, int exit_code) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  const auto give_up = [&](const char* action) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail_file(exit_code, action, path);
  };
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) fail_file(exit_code, "create", temporary);
    while (!content.empty()) {
      const ssize_t written = ::write(file.get(), content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) give_up("write");
      content.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::fsync(file.get()) != 0) give_up("sync");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("rename a temporary file to");
  fsync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

std::string read_file(const std::filesystem::path& path, int exit_code) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    if (file && file.peek() == std::ifstream::traits_type::eof() && errno == 0) return "";  // an empty file
    fail_file(exit_code, "read", path);
  }
  return text.str();
}

void fsync_file(const std::filesystem::path& path) { sync(path, O_RDONLY); }
void fsync_folder(const std::filesystem::path& path) { sync(path, O_RDONLY | O_DIRECTORY); }

std::string hash_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_file(checkpoint_code, "read", path);
  XXH3_state_t* hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  std::string block(1 << 20, '\0');
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    XXH3_64bits_update(hash, block.data(), static_cast<std::size_t>(file.gcount()));
  }
  const std::uint64_t value = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  return fmt::format("{:016x}", value);
}

}  // namespace muster
