// One owner type for every C handle (MPI, HDF5, CUDA, cuDNN, NCCL). Traits give the type, the empty value and the
// release function; release must not throw and must not communicate.
//   struct FileTraits { using type = hid_t; static constexpr type empty() {...} static void release(type) noexcept; };
#pragma once

#include <utility>

namespace muster {

template <class Traits>
class UniqueHandle {
 public:
  using type = typename Traits::type;

  UniqueHandle() noexcept = default;
  explicit UniqueHandle(type value) noexcept : value_(value) {}
  UniqueHandle(UniqueHandle&& other) noexcept : value_(other.detach()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.detach());
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  type get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return !(value_ == Traits::empty()); }
  /// Gives the handle up without releasing it.
  [[nodiscard]] type detach() noexcept { return std::exchange(value_, Traits::empty()); }
  void reset(type value = Traits::empty()) noexcept {
    type old = std::exchange(value_, value);
    if (!(old == Traits::empty())) Traits::release(old);
  }

 private:
  type value_ = Traits::empty();
};

}  // namespace muster
