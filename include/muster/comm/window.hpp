// One-sided memory: every rank of a group exposes a part; any rank puts into and gets from any part while the owner
// does something else. The base of the parameter servers: the only operations are those that outlive the death of a
// peer (puts, gets and whole 8-byte words), never a lock, never an accumulate, never a collective after the start.
//
// Two transports behind one interface:
//   shared    the ranks of one node: loads, stores and atomics in shared memory; nobody has to help
//   general   any ranks: MPI puts and gets. Across hosts they are messages that the target's MPI library answers, so a
//             rank whose part is used must call progress() all the time, and do nothing else for long.
//
// Used by one thread of a rank. A put or get with a rank that never answers ends the process with ExitCode::comm when
// the communicator's deadline is over (MPI offers no other way out of a flush).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace muster::comm {

enum class WindowKind : std::uint8_t { shared, general };

class Window {
 public:
  virtual ~Window() = default;

  /// This rank's part: 64-byte aligned, zeroed at the start, as long as was asked for.
  virtual std::span<std::byte> mine() = 0;

  /// Starts copying; `from` and `into` belong to the window until flush(rank) returns.
  virtual void put(std::span<const std::byte> from, int rank, std::size_t offset) = 0;
  virtual void get(std::span<std::byte> into, int rank, std::size_t offset) = 0;
  /// Every put and get with `rank` is complete, also at the rank's memory.
  virtual void flush(int rank) = 0;

  /// A word of 8 bytes (offset divisible by 8), read and written whole. put_word() is complete on return and is seen
  /// after everything flushed before; what was put before a word that get_word() has seen is seen by later gets.
  virtual void put_word(std::uint64_t value, int rank, std::size_t offset) = 0;
  virtual std::uint64_t get_word(int rank, std::size_t offset) = 0;

  /// Lets MPI answer the others. Cheap where nothing has to be answered.
  virtual void progress() = 0;
  virtual WindowKind kind() const = 0;
  virtual std::string describe() const = 0;  ///< "shared memory" or "MPI one-sided"
  /// Collective over the group; not after a rank was lost (then the process ends without it).
  virtual void close() = 0;
};

}  // namespace muster::comm
