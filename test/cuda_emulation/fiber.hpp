// Switching between stacks. On x86-64 a few instructions of our own: swapcontext asks the kernel for the signal mask at
// every switch, which would make the emulation thirty times slower. Elsewhere swapcontext it is.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

#if defined(__x86_64__)

/// Keeps what the calling convention asks a callee to keep, on the stack that is left.
extern "C" void emulation_switch_stack(void** leave, void* enter);

struct StackPointer {
  void* top = nullptr;
};
inline void switch_to(StackPointer& leave, StackPointer& enter) { emulation_switch_stack(&leave.top, enter.top); }
/// `entry` must never return.
inline void prepare(StackPointer& fiber, void* stack, std::size_t bytes, void (*entry)()) {
  auto* top = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(stack) + bytes) - 1;
  *--top = reinterpret_cast<std::uintptr_t>(entry);  // where the switch returns to
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  fiber.top = top;
}

#else

using StackPointer = ucontext_t;
inline void switch_to(StackPointer& leave, StackPointer& enter) { ::swapcontext(&leave, &enter); }
inline void prepare(StackPointer& fiber, void* stack, std::size_t bytes, void (*entry)()) {
  ::getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = bytes;
  fiber.uc_link = nullptr;
  ::makecontext(&fiber, entry, 0);
}

#endif

}  // namespace emulation
