#include <muster/base/protobuf.hpp>

#include <bit>

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

constexpr int kind_varint = 0, kind_fixed64 = 1, kind_bytes = 2, kind_fixed32 = 5;

}  // namespace

void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtoMessage::key(int field, int kind) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind));
}

template <class T>
ProtoMessage& ProtoMessage::fixed(int field, int kind, T value) {
  key(field, kind);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

ProtoMessage& ProtoMessage::integer(int field, std::int64_t value) {
  key(field, kind_varint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}
ProtoMessage& ProtoMessage::number(int field, float value) { return fixed(field, kind_fixed32, value); }
ProtoMessage& ProtoMessage::number(int field, double value) { return fixed(field, kind_fixed64, value); }
ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
  key(field, kind_bytes);
  varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace muster
