// A window on MPI's passive-target operations: everything is locked shared once and for all at the start, puts and gets
// are completed by flushes, and the window is never unlocked once a rank may be gone (unlock and free are collective).
// Gets are tested, with naps in between: a flush polls hot, and on a core that somebody else computes on every yield of
// it costs a time slice. Puts have no other end than a flush. A guard ends the process when the target does not answer.
#include "comm/mpi/window.hpp"

#include "comm/mpi/blocking_guard.hpp"
#include "comm/mpi/check.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/pause.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace muster::comm {
namespace {

class MpiWindow final : public Window {
 public:
  MpiWindow(std::shared_ptr<Runtime> runtime, MPI_Comm group, std::size_t bytes, std::size_t piece_bytes)
      : runtime_(std::move(runtime)), group_(group), bytes_(bytes), piece_bytes_(piece_bytes) {
    void* base = nullptr;
    const BlockingGuard guard("MPI_Win_allocate", runtime_->deadline_s());
    const auto room = static_cast<MPI_Aint>(bytes + alignment);
    const int status = MPI_Win_allocate(room, 1, MPI_INFO_NULL, group_, &base, &window_);
    if (status != MPI_SUCCESS)
      fail(ExitCode::launch,
           "this MPI library has no one-sided transport between the hosts of the job ({}); with Open MPI start with "
           "--mca osc ^ucx, and remove any other setting of osc",
           mpi_message(status));
    MUSTER_MPI(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    shift_ = (alignment - address % alignment) % alignment;
    base_ = static_cast<std::byte*>(base) + shift_;
    std::memset(base_, 0, bytes);
    exchange_sizes();
    MUSTER_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_));
  }

  std::span<std::byte> mine() override { return {base_, bytes_}; }

  void put(std::span<const std::byte> from, int rank, std::size_t offset) override {
    const MPI_Aint at = place(rank, offset, from.size());
    parts_[static_cast<std::size_t>(rank)].has_puts = true;
    for (std::size_t done = 0; done < from.size(); done += piece_bytes_) {
      const int piece = static_cast<int>(std::min(piece_bytes_, from.size() - done));
      MUSTER_MPI(MPI_Put(from.data() + done, piece, MPI_BYTE, rank, at + static_cast<MPI_Aint>(done), piece, MPI_BYTE,
                         window_));
    }
  }
  void get(std::span<std::byte> into, int rank, std::size_t offset) override {
    const MPI_Aint at = place(rank, offset, into.size());
    for (std::size_t done = 0; done < into.size(); done += piece_bytes_) {
      const int piece = static_cast<int>(std::min(piece_bytes_, into.size() - done));
      MPI_Request& request = parts_[static_cast<std::size_t>(rank)].gets.emplace_back();
      MUSTER_MPI(MPI_Rget(into.data() + done, piece, MPI_BYTE, rank, at + static_cast<MPI_Aint>(done), piece, MPI_BYTE,
                          window_, &request));
    }
  }
  void flush(int rank) override {
    const BlockingGuard guard("a one-sided copy from or to another rank", runtime_->deadline_s());
    Part& part = parts_[static_cast<std::size_t>(rank)];
    if (std::exchange(part.has_puts, false)) MUSTER_MPI(MPI_Win_flush(rank, window_));
    finish(part.gets);
    MUSTER_MPI(MPI_Win_sync(window_));
  }
  void put_word(std::uint64_t value, int rank, std::size_t offset) override {
    MUSTER_CHECK(offset % sizeof value == 0, "word at {}", offset);
    const MPI_Aint at = place(rank, offset, sizeof value);
    word_ = value;
    parts_[static_cast<std::size_t>(rank)].has_puts = true;
    MUSTER_MPI(MPI_Put(&word_, 1, MPI_UINT64_T, rank, at, 1, MPI_UINT64_T, window_));
    flush(rank);
  }
  std::uint64_t get_word(int rank, std::size_t offset) override {
    MUSTER_CHECK(offset % sizeof word_ == 0, "word at {}", offset);
    get(std::as_writable_bytes(std::span(&word_, 1)), rank, offset);
    flush(rank);
    return word_;
  }
  void progress() override {
    int is_there = 0;
    MUSTER_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_, &is_there, MPI_STATUS_IGNORE));
    MUSTER_MPI(MPI_Win_sync(window_));
  }
  WindowKind kind() const override { return WindowKind::general; }
  std::string describe() const override { return "MPI one-sided"; }
  void close() override {
    if (window_ == MPI_WIN_NULL) return;
    const BlockingGuard guard("MPI_Win_free", runtime_->deadline_s());
    MUSTER_MPI(MPI_Win_unlock_all(window_));
    MUSTER_MPI(MPI_Win_free(&window_));
  }

 private:
  static constexpr std::size_t alignment = 64;

  static void finish(std::vector<MPI_Request>& requests) {
    const Stopwatch watch;
    for (MPI_Request& request : requests)
      for (int is_done = 0; is_done == 0;) {
        MUSTER_MPI(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
        if (is_done == 0) pass_time(watch.elapsed_s());
      }
    requests.clear();
  }

  /// Where every rank's part begins in its window, and how long it is.
  void exchange_sizes() {
    int size = 0;
    MUSTER_MPI(MPI_Comm_size(group_, &size));
    const std::uint64_t own[2] = {shift_, bytes_};
    std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(size));
    MUSTER_MPI(MPI_Allgather(own, 2, MPI_UINT64_T, all.data(), 2, MPI_UINT64_T, group_));
    for (std::size_t i = 0; i < all.size(); i += 2) parts_.push_back({all[i], all[i + 1], {}, false});
  }
  MPI_Aint place(int rank, std::size_t offset, std::size_t bytes) const {
    const Part& part = parts_.at(static_cast<std::size_t>(rank));
    MUSTER_CHECK(offset + bytes <= part.bytes, "{} bytes at {} of {} of rank {}", bytes, offset, part.bytes, rank);
    return static_cast<MPI_Aint>(part.shift + offset);
  }

  struct Part {
    std::uint64_t shift, bytes;
    std::vector<MPI_Request> gets;  // under way
    bool has_puts;                  // since the last flush
  };
  std::shared_ptr<Runtime> runtime_;
  MPI_Comm group_;
  std::size_t bytes_, piece_bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::uint64_t shift_ = 0;
  std::byte* base_ = nullptr;
  std::vector<Part> parts_;
  std::uint64_t word_ = 0;
};

}  // namespace

std::unique_ptr<Window> make_mpi_window(std::shared_ptr<Runtime> runtime, MPI_Comm group, std::size_t bytes_mine,
                                        std::size_t piece_bytes) {
  return std::make_unique<MpiWindow>(std::move(runtime), group, bytes_mine, piece_bytes);
}

}  // namespace muster::comm
