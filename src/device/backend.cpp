// What a backend inherits whose memory is the host's.
#include <muster/device/backend.hpp>

#include <muster/base/check.hpp>

#include <cstring>

namespace muster::device {

void Backend::copy_in(void* destination, const void* host, std::size_t bytes) { std::memcpy(destination, host, bytes); }
void Backend::copy_out(void* host, const void* source, std::size_t bytes) { std::memcpy(host, source, bytes); }
void Backend::copy(void* destination, const void* source, std::size_t bytes) {
  std::memcpy(destination, source, bytes);
}
void Backend::fill_zero(void* destination, std::size_t bytes) { std::memset(destination, 0, bytes); }

std::string Backend::why_unsupported(const UpdateRule& rule) const {
  return fmt::format("{} has no {} of its own", name(), rule.kind);
}
void Backend::update(const UpdateRule& rule, const UpdateArenas&) {
  MUSTER_CHECK(false, "{} was asked for an update by {}", name(), rule.kind);
}

}  // namespace muster::device
