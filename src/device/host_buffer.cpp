#include "device/host_buffer.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <sys/mman.h>
#include <cstring>

namespace muster::device {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) {
    // Whole huge pages where it is worth it; an own mapping always starts at least at a page.
    mapped_ =
        bytes >= huge_page ? (bytes + huge_page - 1) / huge_page * huge_page + huge_page : (bytes + 4095) / 4096 * 4096;
    void* address = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      fail(ExitCode::device, "out of host memory: {} more were asked for; use a smaller data.batch or more ranks",
           human_bytes(bytes));
    base_ = static_cast<std::byte*>(address);
    data_ = base_;
    if (bytes >= huge_page) {
      const auto at = reinterpret_cast<std::uintptr_t>(base_);
      data_ = base_ + ((at + huge_page - 1) / huge_page * huge_page - at);
      ::madvise(data_, mapped_ - huge_page, MADV_HUGEPAGE);
    }
    std::memset(data_, 0, bytes);
  }
  ~HostBuffer() override { ::munmap(base_, mapped_); }
  void* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_, mapped_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace

std::unique_ptr<Buffer> allocate_host(std::size_t bytes) {
  return std::make_unique<HostBuffer>(bytes == 0 ? 64 : bytes);
}

}  // namespace muster::device
