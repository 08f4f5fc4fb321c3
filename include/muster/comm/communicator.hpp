// Groups of ranks and what they say to each other. The typed front (this class) is the one choke point: it checks
// counts, counts messages and bytes, and gives every wait a name and a deadline. Implementations: mpi/ and, for builds
// and tests without MPI, a group of one. Nothing above comm sees mpi.h. Used by one thread (the training thread).
//
// A wait past its deadline throws Error(comm) that names the operation, the step, and the absent ranks with hosts.
#pragma once

#include <muster/base/clock.hpp>
#include <muster/base/ids.hpp>
#include <muster/comm/window.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::comm {

enum class Reduction : std::uint8_t { sum, min, max };

/// An operation under way. Owns nothing of the caller's: the buffer must outlive wait(). Destroyed unfinished while an
/// exception is in flight it is abandoned.
class Request {
 public:
  virtual ~Request() = default;
  virtual bool test() = 0;  ///< true once finished; drives progress
};
using RequestPtr = std::unique_ptr<Request>;

/// Memory shared by the ranks of one node: each rank's part is readable and writable by all (its pages come from the
/// system zeroed, and are there from the start). Owned collectively:
/// close() is collective, the destructor is not.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual std::span<std::byte> part(
      int rank) = 0;  ///< rank in the communicator it was made on; 64-byte aligned, zeroed
  virtual void close() = 0;
};

/// What this rank has sent in a group and in the groups split from it: messages, and collectives as one message each
/// with the bytes contributed.
struct Traffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  ///< "world", "node", "data", ...
  virtual WorldRank world_rank(int rank) const = 0;
  virtual const std::string& host(int rank) const = 0;
  virtual bool is_one_node() const = 0;  ///< all ranks share memory

  // Collectives (every rank of the group calls them in the same order). `what` names the operation in messages.
  virtual void barrier(const std::string& what) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root, const std::string& what) = 0;
  virtual void all_reduce(std::span<double> values, Reduction op, const std::string& what) = 0;
  virtual void all_reduce(std::span<std::int64_t> values, Reduction op, const std::string& what) = 0;
  /// Every rank contributes equally many bytes; `all` is size() times as long.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const std::string& what) = 0;
  /// Strings of any length from every rank, in rank order, on every rank.
  virtual std::vector<std::string> all_gather_text(const std::string& mine, const std::string& what) = 0;

  // Point to point, non-blocking, any size.
  [[nodiscard]] virtual RequestPtr send(std::span<const std::byte> bytes, int destination, int tag) = 0;
  [[nodiscard]] virtual RequestPtr receive(std::span<std::byte> bytes, int source, int tag) = 0;
  /// Tests until all are finished; peers[i] is the rank request i depends on (named when the deadline passes).
  virtual void wait_all(std::span<const RequestPtr> requests, std::span<const int> peers, const std::string& what) = 0;
  /// For waits on something else than a request (flags in shared memory): call in the loop; drives MPI's progress,
  /// yields the core, notices lost ranks of this node at once, and throws when the deadline is over. missing: ranks
  /// waited for.
  virtual void poll(const Deadline& deadline, std::span<const int> missing) = 0;

  /// Collective; color < 0: this rank is in no group (null).
  virtual std::unique_ptr<Communicator> split(int color, int key, const std::string& name) = 0;
  /// The ranks that share this rank's node.
  virtual std::unique_ptr<Communicator> split_node(const std::string& name) = 0;
  /// Collective; throws Error(launch) unless is_one_node().
  virtual std::unique_ptr<SharedSegment> share(std::size_t bytes_mine) = 0;

  /// Collective; one-sided memory over this group. Throws Error(launch) where the kind is not to be had.
  virtual std::unique_ptr<Window> window(std::size_t bytes_mine, WindowKind kind) = 0;

  virtual double deadline_s() const = 0;
  virtual Traffic traffic() const = 0;
};

/// Spans of values as bytes, for send, receive and broadcast.
template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}
template <class T>
std::span<std::byte> bytes_of(std::span<T> values) {
  return std::as_writable_bytes(values);
}

}  // namespace muster::comm
