// Element types of tensors and datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

enum class DType : std::uint8_t { f32, f64, bf16, u8, i8, i16, u16, i32, i64 };

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::u8:
    case DType::i8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::bf16:
      return "bfloat16";
    case DType::u8:
      return "uint8";
    case DType::i8:
      return "int8";
    case DType::i16:
      return "int16";
    case DType::u16:
      return "uint16";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
  }
  return "?";
}

}  // namespace muster
