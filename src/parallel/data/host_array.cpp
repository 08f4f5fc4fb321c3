#include "parallel/data/host_array.hpp"

#include <sys/mman.h>
#include <new>
#include <utility>

namespace muster::parallel {
namespace {
constexpr std::size_t huge_bytes = std::size_t{2} << 20;
}

HostArray::HostArray(std::int64_t floats) : size_(static_cast<std::size_t>(floats)) {
  const std::size_t bytes = size_ * sizeof(float);
  const bool is_large = bytes >= huge_bytes;
  mapped_bytes_ = bytes + (is_large ? huge_bytes : 64);
  mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  auto at = reinterpret_cast<std::uintptr_t>(mapping_);
  if (is_large) {
    at = (at + huge_bytes - 1) / huge_bytes * huge_bytes;
    ::madvise(reinterpret_cast<void*>(at), bytes, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<float*>(at);
}

HostArray::HostArray(HostArray&& other) noexcept { *this = std::move(other); }

HostArray& HostArray::operator=(HostArray&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostArray::~HostArray() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

}  // namespace muster::parallel
