// What the doubles share: device memory, and work that streams do later. One thread uses them, as the product does.
//
// Device memory has two ranges of addresses. Those the product sees cannot be touched; the bytes lie at a fixed
// distance from them, in the shadow, where only the doubles look.
#pragma once

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

namespace emulation {

/// Prints the message and ends the process: a mistake that a real GPU would answer by wrong results or a hang.
[[noreturn]] void stop(const std::string& message);

// ---- memory.cpp
bool is_device_memory(const void* address);
bool is_pinned_memory(const void* address, std::size_t bytes);
/// The shadow of `bytes` at a device address; stops where they are not inside one allocation, naming `what`.
void* shadow_of(const void* address, std::size_t bytes, const std::string& what);
template <class T>
T* shadow(T* address, std::size_t bytes, const std::string& what) {
  return static_cast<T*>(shadow_of(address, bytes, what));
}
/// The same for a kernel's argument, whose extent is not known; its guard pages catch what goes too far.
void* shadow_of_argument(const void* address, const std::string& what);

// ---- stream.cpp
/// Does `work` when the schedule comes to it.
void enqueue(cudaStream_t stream, const std::string& what, std::function<void()> work);
void finish_all_streams();
/// What runs now, for messages of faults.
const std::string& current_work();

/// Handles that are alive, checked when the process ends.
class Counted {
 public:
  Counted();
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted();
};

}  // namespace emulation
