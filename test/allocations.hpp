// Counts what the calling thread asks malloc for between two points, whoever asks: glibc's own entry is replaced, so
// that the libraries' calls are seen too. For one file of a binary. What oneDNN (small lists of arguments) and MPI ask
// for in their calls is not counted, since we cannot help it. Sanitizers bring their own malloc: there nothing is
// counted.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace muster::test {
inline thread_local bool is_counting = false;
inline thread_local long allocations = 0;

/// Allocations of call(), in this thread.
template <class Call>
long allocations_of(const Call& call) {
  void* warm[4];
  backtrace(warm, 4);  // loads the unwinder, which allocates once
  allocations = 0;
  is_counting = true;
  call();
  is_counting = false;
  return allocations;
}
}  // namespace muster::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MUSTER_COUNTS_ALLOCATIONS 1

namespace muster::test {
inline bool is_from_others() {
  void* frames[32];
  const int count = backtrace(frames, 32);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || !info.dli_fname) continue;
    for (const char* library : {"libdnnl", "libmpi", "libopen-", "openmpi"})
      if (std::strstr(info.dli_fname, library)) return true;
  }
  return false;
}
}  // namespace muster::test

extern "C" void* __libc_malloc(std::size_t);
extern "C" void* malloc(std::size_t bytes) {
  using namespace muster::test;
  if (is_counting) {
    is_counting = false;
    if (!is_from_others()) ++allocations;
    is_counting = true;
  }
  return __libc_malloc(bytes);
}
#else
#define MUSTER_COUNTS_ALLOCATIONS 0
#endif
