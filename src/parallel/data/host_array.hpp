// Floats of one process, zeroed, aligned, on huge pages where the system grants them (first touch of small pages is
// dear).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::parallel {

class HostArray {
 public:
  HostArray() = default;
  explicit HostArray(std::int64_t floats);
  HostArray(HostArray&& other) noexcept;
  HostArray& operator=(HostArray&& other) noexcept;
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;
  ~HostArray();

  std::span<float> span() { return {data_, size_}; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::parallel
