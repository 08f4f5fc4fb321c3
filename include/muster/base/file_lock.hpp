// A lock on a file or folder between processes, also of other hosts where the file system has such locks (flock). It
// ends with its owner, and with the process, however that ends.
#pragma once

#include <muster/base/handle.hpp>

#include <cstdint>
#include <filesystem>

namespace muster {

struct FileLockTraits {
  using type = int;  // the descriptor that carries the lock
  static constexpr type empty() { return -1; }
  static void release(type descriptor) noexcept;
};

class FileLock {
 public:
  enum class State : std::uint8_t {
    held,     ///< by this object
    busy,     ///< by somebody else
    unknown,  ///< the file system has no locks
  };

  /// Holds nothing.
  FileLock() = default;
  /// Tries once. A folder is locked itself; a file is made where there is none. Throws Error(checkpoint) where the path
  /// cannot be opened.
  explicit FileLock(const std::filesystem::path& path);

  State state() const { return state_; }

 private:
  UniqueHandle<FileLockTraits> descriptor_;
  State state_ = State::unknown;
};

}  // namespace muster
