#include "dataset/text/utf8.hpp"

#include <muster/base/error.hpp>

namespace muster::dataset {

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    bool is_good = length > 0 && at + length <= text.size();
    char32_t point = length == 1 ? first : first & (0x7F >> length);
    for (std::size_t k = 1; is_good && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[at + k]);
      is_good = next >> 6 == 2;
      point = point << 6 | (next & 0x3F);
    }
    if (!is_good)
      fail(ExitCode::data, "expected UTF-8 text, found the byte {:#04x} at offset {}; bytes work with --encoding bytes",
           first, at);
    points.push_back(point);
    at += length;
  }
  return points;
}

std::string utf8_of(char32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace muster::dataset
