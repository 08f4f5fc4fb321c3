// A window in shared memory: a put is a copy, a word is an atomic. Copies are ordered before words by the words'
// release and acquire, so a flush has nothing to do.
#include "comm/shared_window.hpp"

#include <muster/base/check.hpp>

#include <atomic>
#include <cstring>

namespace muster::comm {
namespace {

class SharedWindow final : public Window {
 public:
  SharedWindow(std::unique_ptr<SharedSegment> segment, int rank) : segment_(std::move(segment)), rank_(rank) {}

  std::span<std::byte> mine() override { return segment_->part(rank_); }
  void put(std::span<const std::byte> from, int rank, std::size_t offset) override {
    std::memcpy(place(rank, offset, from.size()), from.data(), from.size());
  }
  void get(std::span<std::byte> into, int rank, std::size_t offset) override {
    std::memcpy(into.data(), place(rank, offset, into.size()), into.size());
  }
  void flush(int) override {}
  void put_word(std::uint64_t value, int rank, std::size_t offset) override {
    word(rank, offset).store(value, std::memory_order_release);
  }
  std::uint64_t get_word(int rank, std::size_t offset) override {
    return word(rank, offset).load(std::memory_order_acquire);
  }
  void progress() override {}
  WindowKind kind() const override { return WindowKind::shared; }
  std::string describe() const override { return "shared memory"; }
  void close() override { segment_->close(); }

 private:
  std::byte* place(int rank, std::size_t offset, std::size_t bytes) {
    const std::span<std::byte> part = segment_->part(rank);
    MUSTER_CHECK(offset + bytes <= part.size(), "{} bytes at {} of {} of rank {}", bytes, offset, part.size(), rank);
    return part.data() + offset;
  }
  std::atomic_ref<std::uint64_t> word(int rank, std::size_t offset) {
    MUSTER_CHECK(offset % sizeof(std::uint64_t) == 0, "word at {}", offset);
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place(rank, offset, sizeof(std::uint64_t))));
  }

  std::unique_ptr<SharedSegment> segment_;
  int rank_;
};

}  // namespace

std::unique_ptr<Window> make_shared_window(std::unique_ptr<SharedSegment> segment, int rank) {
  return std::make_unique<SharedWindow>(std::move(segment), rank);
}

}  // namespace muster::comm
