// Host memory for the CPU backends: anonymous pages, huge where the kernel gives them, touched once so that no step
// pays for a first touch.
#pragma once

#include <muster/device/backend.hpp>

#include <memory>

namespace muster::device {

/// Zeroed, 64-byte aligned. Throws Error(device) when memory runs out.
std::unique_ptr<Buffer> allocate_host(std::size_t bytes);

}  // namespace muster::device
