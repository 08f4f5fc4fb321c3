// Blocks of threads on the CPU: every thread is a fiber that runs until a barrier or its end. Included by .cu files.
#pragma once

#include "cuda_emulation/doubles.hpp"

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace emulation {

struct Thread {
  uint3 thread{}, block{};
  dim3 block_extent, grid_extent;
  int number = 0;  ///< inside the block
};

const Thread& this_thread();
/// Returns when all threads of the block have come here.
void wait_for_block();
/// Number of barriers this block has passed.
unsigned epoch();

/// Runs `body` for every thread of every block. kernel: which one it is (several files may use one name).
void run_grid(const std::string& name, const void* kernel, dim3 grid, dim3 block, const std::function<void()>& body);

/// Who used an element of a shared array last. Two threads, one of them writing, without a barrier between: a race.
struct Use {
  int writer = -1, reader = -1;
  unsigned written_at = 0, read_at = 0;
  bool has_many_readers = false;
};
void note_read(Use& use, const char* name, int index);
void note_write(Use& use, const char* name, int index);

/// Storage of one shared array of the running block: poisoned when its first thread comes; `uses` behind it.
struct SharedStorage {
  void* bytes;
  Use* uses;
};
SharedStorage shared_storage(const void* key, std::size_t bytes, int count);
[[noreturn]] void stop_out_of_bounds(const char* name, int index, int count);

template <class T>
class SharedArray {
 public:
  SharedArray(const void* key, const char* name, int count)
      : storage_(shared_storage(key, sizeof(T) * static_cast<std::size_t>(count), count)), name_(name), count_(count) {}

  class Element {
   public:
    Element(const SharedArray& array, int index) : array_(array), index_(index) {}
    operator T() const {
      note_read(array_.storage_.uses[index_], array_.name_, index_);
      return static_cast<T*>(array_.storage_.bytes)[index_];
    }
    Element& operator=(T value) {
      note_write(array_.storage_.uses[index_], array_.name_, index_);
      static_cast<T*>(array_.storage_.bytes)[index_] = value;
      return *this;
    }

   private:
    const SharedArray& array_;
    int index_;
  };
  Element operator[](int index) const {
    if (index < 0 || index >= count_) stop_out_of_bounds(name_, index, count_);
    return Element(*this, index);
  }

 private:
  SharedStorage storage_;
  const char* name_;
  int count_;
};

/// Pointers among the arguments must be null or device memory, and are translated.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
            const Arguments&... arguments) {
  std::tuple<std::decay_t<Parameters>...> values{static_cast<std::decay_t<Parameters>>(arguments)...};
  const auto translate = [&](auto& value) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(value)>>)
      value = static_cast<std::decay_t<decltype(value)>>(const_cast<void*>(
          static_cast<const void*>(shadow_of_argument(value, std::string("an argument of ") + name))));
  };
  std::apply([&](auto&... value) { (translate(value), ...); }, values);
  if (block.x * block.y * block.z > 1024 || block.x == 0) stop(fmt::format("{}: a block of {}", name, block.x));
  if (grid.x == 0 || grid.y > 65535 || grid.z > 65535) stop(fmt::format("{}: a grid of {}", name, grid.x));
  enqueue(stream, name, [=, text = std::string(name)] {
    run_grid(text, reinterpret_cast<const void*>(kernel), grid, block, [&] { std::apply(kernel, values); });
  });
}

}  // namespace emulation
