// Device and pinned memory of the double. Allocations are never placed twice at the same address, end at a page that
// cannot be touched, and start full of NaN.
#include "cuda_emulation/doubles.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

namespace emulation {
namespace {

constexpr std::size_t page = 4096, alignment = 256;
constexpr std::size_t range_bytes = std::size_t{64} << 30;

struct Ranges {
  std::byte* seen = nullptr;    // never touched
  std::byte* shadow = nullptr;  // the bytes
  std::size_t used = page;      // addresses given out so far
  std::size_t allocated = 0;
  std::map<std::byte*, std::size_t> pieces;  // by address as seen
  std::map<std::byte*, std::size_t> pinned;
};

std::byte* reserve() {
  void* base = ::mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) stop("no address space for device memory");
  return static_cast<std::byte*>(base);
}

Ranges& ranges();

void write_text(const char* text) {
  const auto ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

void on_fault(int, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  const Ranges& r = ranges();
  if (at >= r.seen && at < r.seen + range_bytes) write_text("cuda emulation: the host touched device memory\n");
  else if (at >= r.shadow && at < r.shadow + range_bytes) {
    write_text("cuda emulation: access beyond an allocation of device memory in ");
    write_text(current_work().c_str());
    write_text("\n");
  }
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

Ranges& ranges() {
  static Ranges all = [] {
    Ranges made;
    made.seen = reserve();
    made.shadow = reserve();
    return made;
  }();
  return all;
}

/// Once, before the first memory is given out.
void catch_faults() {
  static const bool is_set = [] {
    ranges();
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, nullptr);
    return true;
  }();
  static_cast<void>(is_set);
}

/// EMULATION_MEMORY_MIB: how much memory the device has.
std::size_t device_bytes() {
  const char* text = std::getenv("EMULATION_MEMORY_MIB");
  return (text == nullptr ? std::size_t{4096} : static_cast<std::size_t>(std::atoll(text))) << 20;
}

std::size_t padded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// The allocation that holds the address, or the end.
auto piece_of(const void* address) {
  auto& pieces = ranges().pieces;
  auto it = pieces.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
  if (it == pieces.begin()) return pieces.end();
  --it;
  return static_cast<const std::byte*>(address) < it->first + it->second ? it : pieces.end();
}

}  // namespace

void stop(const std::string& message) {
  write_text(("cuda emulation: " + message + "\n").c_str());
  std::_Exit(134);
}

bool is_device_memory(const void* address) { return piece_of(address) != ranges().pieces.end(); }

bool is_pinned_memory(const void* address, std::size_t bytes) {
  auto& pinned = ranges().pinned;
  auto it = pinned.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
  if (it == pinned.begin()) return false;
  --it;
  return static_cast<const std::byte*>(address) + bytes <= it->first + it->second;
}

void* shadow_of(const void* address, std::size_t bytes, const std::string& what) {
  const auto it = piece_of(address);
  if (it == ranges().pieces.end()) stop(fmt::format("{}: {} is not device memory", what, address));
  const auto* at = static_cast<const std::byte*>(address);
  if (at + bytes > it->first + it->second)
    stop(fmt::format("{}: {} bytes, but only {} are left of the allocation", what, bytes, it->first + it->second - at));
  return ranges().shadow + (at - ranges().seen);
}

void* shadow_of_argument(const void* address, const std::string& what) {
  return address == nullptr ? nullptr : shadow_of(address, 0, what);
}

}  // namespace emulation

using namespace emulation;

extern "C" cudaError_t cudaMalloc(void** address, size_t bytes) {
  catch_faults();
  Ranges& r = ranges();
  const std::size_t room = padded(bytes, alignment), mapped = padded(room, page);
  if (bytes > device_bytes() || r.allocated + room > device_bytes() || r.used + mapped + page > range_bytes)
    return cudaErrorMemoryAllocation;
  std::byte* shadow = r.shadow + r.used;
  if (::mprotect(shadow, mapped, PROT_READ | PROT_WRITE) != 0) stop("mprotect");
  std::memset(shadow, 0xFF, mapped);
  std::byte* seen = r.seen + r.used + (mapped - room);  // ends where the page that cannot be touched begins
  r.pieces[seen] = room;
  r.used += mapped + page;
  r.allocated += room;
  *address = seen;
  return cudaSuccess;
}

extern "C" cudaError_t cudaFree(void* address) {
  if (address == nullptr) return cudaSuccess;
  finish_all_streams();
  Ranges& r = ranges();
  const auto it = r.pieces.find(static_cast<std::byte*>(address));
  if (it == r.pieces.end()) stop(fmt::format("cudaFree: {} was not allocated", address));
  std::byte* shadow = r.shadow + (it->first - r.seen);
  std::byte* first =
      r.shadow + (shadow - r.shadow) / static_cast<std::ptrdiff_t>(page) * static_cast<std::ptrdiff_t>(page);
  const auto mapped = static_cast<std::size_t>(shadow + it->second - first);
  ::madvise(first, mapped, MADV_DONTNEED);
  if (::mprotect(first, mapped, PROT_NONE) != 0) stop("mprotect");
  r.allocated -= it->second;
  r.pieces.erase(it);
  return cudaSuccess;
}

extern "C" cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
  *all = device_bytes();
  *left = *all - ranges().allocated;
  return cudaSuccess;
}

extern "C" cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = std::aligned_alloc(page, padded(bytes, page));
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*address, 0xFF, padded(bytes, page));
  ranges().pinned[static_cast<std::byte*>(*address)] = bytes;
  return cudaSuccess;
}

extern "C" cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return cudaSuccess;
  finish_all_streams();
  if (ranges().pinned.erase(static_cast<std::byte*>(address)) == 0)
    stop(fmt::format("cudaFreeHost: {} was not allocated", address));
  std::free(address);
  return cudaSuccess;
}
