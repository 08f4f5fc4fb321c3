// Writing the wire format of Protocol Buffers: a message is its fields one after the other, each its number and kind,
// then the value. Enough for formats that others read; nothing here reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

class ProtoMessage {
 public:
  ProtoMessage& integer(int field, std::int64_t value);
  ProtoMessage& number(int field, float value);
  ProtoMessage& number(int field, double value);
  ProtoMessage& text(int field, std::string_view value);
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, int kind);
  template <class T>
  ProtoMessage& fixed(int field, int kind, T value);
  std::string bytes_;
};

}  // namespace muster
