#include "config/number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace muster::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

/// [sign] digits [. digits] [e [sign] digits], with at least one digit before or after the point.
bool is_float(std::string_view text) {
  std::size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const std::size_t whole = skip_digits(text, at);
  std::size_t digits = whole - at;
  at = whole;
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = skip_digits(text, at + 1);
    digits += end - at - 1;
    at = end;
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t end = skip_digits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

std::string_view without_plus(std::string_view text) { return text.starts_with('+') ? text.substr(1) : text; }

template <class T>
std::optional<T> convert(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  const std::string_view digits = without_plus(text);
  const std::string_view unsigned_digits = digits.starts_with('-') ? digits.substr(1) : digits;
  if (unsigned_digits.empty() || !std::all_of(unsigned_digits.begin(), unsigned_digits.end(), is_digit))
    return std::nullopt;
  if (unsigned_digits.size() > 1 && unsigned_digits[0] == '0') return std::nullopt;
  if (text.starts_with('+') && digits.starts_with('-')) return std::nullopt;
  return convert<T>(digits);
}

}  // namespace

std::optional<double> parse_double(std::string_view text) {
  return is_float(text) ? convert<double>(without_plus(text)) : std::nullopt;
}
std::optional<float> parse_float(std::string_view text) {
  return is_float(text) ? convert<float>(without_plus(text)) : std::nullopt;
}
std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_whole<std::int64_t>(text); }
std::optional<std::uint64_t> parse_unsigned(std::string_view text) { return parse_whole<std::uint64_t>(text); }

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE" || text == "yes" || text == "Yes" || text == "YES")
    return true;
  if (text == "false" || text == "False" || text == "FALSE" || text == "no" || text == "No" || text == "NO")
    return false;
  return std::nullopt;
}

bool looks_like_number(std::string_view text) {
  if (text.empty()) return false;
  const char first = text[text[0] == '+' || text[0] == '-' ? 1 : 0];
  return is_digit(first) || (first == '.' && text.size() > 1 && text.find('/') == std::string_view::npos);
}

std::string number_text(double value) { return fmt::format("{}", value); }
std::string number_text(float value) { return fmt::format("{}", value); }

}  // namespace muster::config
