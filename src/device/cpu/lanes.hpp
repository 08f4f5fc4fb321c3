// A few neighbouring numbers worked on at once, for the loops that the compiler does not vectorise by itself. Built on
// the vector types of GCC and Clang, which become whatever instructions the target has.
#pragma once

#include <cstdint>
#include <cstring>

namespace muster::device::cpu {

template <int Width>
struct LaneTypes;
template <>
struct LaneTypes<16> {
  typedef float Floats __attribute__((vector_size(64)));
  typedef std::int32_t Ints __attribute__((vector_size(64)));
  typedef std::uint8_t Bytes __attribute__((vector_size(16)));
};
template <>
struct LaneTypes<8> {
  typedef float Floats __attribute__((vector_size(32)));
  typedef std::int32_t Ints __attribute__((vector_size(32)));
  typedef std::uint8_t Bytes __attribute__((vector_size(8)));
};
template <>
struct LaneTypes<1> {
  typedef float Floats __attribute__((vector_size(4)));
  typedef std::int32_t Ints __attribute__((vector_size(4)));
  typedef std::uint8_t Bytes __attribute__((vector_size(1)));
};

template <int Width>
struct Lanes : LaneTypes<Width> {
  using typename LaneTypes<Width>::Floats;
  using typename LaneTypes<Width>::Ints;
  using typename LaneTypes<Width>::Bytes;

  /// No alignment is asked for.
  static Floats load(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(float* to, const Floats& v) { std::memcpy(to, &v, sizeof v); }
  static void store(std::uint8_t* to, const Ints& v) {
    const Bytes bytes = __builtin_convertvector(v, Bytes);
    std::memcpy(to, &bytes, sizeof bytes);
  }
  static Ints load_bytes(const std::uint8_t* from) {
    Bytes v;
    std::memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Ints);
  }
};

}  // namespace muster::device::cpu
