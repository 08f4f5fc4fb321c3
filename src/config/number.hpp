// The spellings of numbers and booleans that a config may use. Stricter than YAML where YAML surprises (octal 010,
// 0x10, 1_000 are no integers), complete where it matters (every way to write a float).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::config {

/// 1, 1.5, .5, 1., +1, 1e-4, 1e-04, 1E4; finite only. Nullopt for anything else and for values outside the type.
std::optional<double> parse_double(std::string_view text);
std::optional<float> parse_float(std::string_view text);
/// Decimal digits with an optional sign and no leading zeros.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
/// true, false, yes, no; also capitalised or in capitals.
std::optional<bool> parse_boolean(std::string_view text);
/// Whether some YAML reader would take this text for a number.
bool looks_like_number(std::string_view text);

/// The shortest text that is read back to the same value.
std::string number_text(double value);
std::string number_text(float value);

}  // namespace muster::config
