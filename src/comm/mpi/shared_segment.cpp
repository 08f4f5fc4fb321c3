#include "comm/mpi/shared_segment.hpp"

#include "comm/mpi/check.hpp"

#include <muster/base/check.hpp>
#include <muster/base/text.hpp>

#include <sys/mman.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster::comm {
namespace {

constexpr std::size_t page_bytes = 4096;

std::uintptr_t round_up(std::uintptr_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

/// Gives the part its pages now: a full /dev/shm is then an error at the start instead of a SIGBUS in mid-run.
void populate(std::byte* part, std::size_t bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif
  if (bytes == 0 || ::madvise(part, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return;
  fail(ExitCode::device,
       "cannot get {} of shared memory ({}): enlarge /dev/shm (in a container: --shm-size) or use fewer ranks per node",
       human_bytes(bytes), std::strerror(errno));
}

class MpiSharedSegment final : public SharedSegment {
 public:
  MpiSharedSegment(MPI_Comm node, std::size_t bytes_mine) {
    int rank = 0;
    int size = 0;
    MUSTER_MPI(MPI_Comm_rank(node, &rank));
    MUSTER_MPI(MPI_Comm_size(node, &size));
    // MPI packs the parts and aligns nothing. Parts begin at their first page boundary instead (the same one in every
    // process: mappings are whole pages), so that no two ranks' flags meet in a cache line.
    const std::size_t mine = bytes_mine == 0 ? 0 : round_up(bytes_mine) + page_bytes;
    void* base = nullptr;
    MUSTER_MPI(MPI_Win_allocate_shared(static_cast<MPI_Aint>(mine), 1, MPI_INFO_NULL, node, &base, &window_));
    MUSTER_MPI(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
    unsigned long long wanted = bytes_mine;
    std::vector<unsigned long long> all(static_cast<std::size_t>(size));
    MUSTER_MPI(MPI_Allgather(&wanted, 1, MPI_UNSIGNED_LONG_LONG, all.data(), 1, MPI_UNSIGNED_LONG_LONG, node));
    for (int r = 0; r < size; ++r) parts_.push_back(query(r, all[static_cast<std::size_t>(r)]));
    const auto own = parts_[static_cast<std::size_t>(rank)];
    if (size == 1) std::ranges::fill(own, std::byte{0});  // then it is not a fresh file but plain memory
    else populate(own.data(), round_up(own.size()));
  }

  std::span<std::byte> part(int rank) override { return parts_.at(static_cast<std::size_t>(rank)); }

  void close() override {
    if (window_ == MPI_WIN_NULL) return;
    parts_.clear();
    MUSTER_MPI(MPI_Win_free(&window_));
  }

 private:
  std::span<std::byte> query(int rank, std::size_t bytes) const {
    MPI_Aint size = 0;
    int unit = 0;
    void* base = nullptr;
    MUSTER_MPI(MPI_Win_shared_query(window_, rank, &size, &unit, &base));
    if (bytes == 0) return {};
    auto* start = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(base)));
    MUSTER_CHECK(start + bytes <= static_cast<std::byte*>(base) + size, "part of rank {}: {} bytes in {}", rank, bytes,
                 size);
    return {start, bytes};
  }

  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace

std::unique_ptr<SharedSegment> make_shared_segment(MPI_Comm node, std::size_t bytes_mine) {
  return std::make_unique<MpiSharedSegment>(node, bytes_mine);
}

}  // namespace muster::comm
