#include "config/value.hpp"

#include "config/number.hpp"

#include <muster/base/text.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace muster::config {
namespace {

std::string bound_text(double value) { return fmt::format("{}", value); }

/// No integer of a config but the seed may be larger, so that products of two of them cannot overflow.
constexpr std::int64_t most_integer = std::numeric_limits<std::int32_t>::max();

template <class T>
bool is_too_large(T value) {
  if constexpr (std::is_same_v<T, std::int64_t>) return value > most_integer || value < -most_integer;
  else return false;
}

/// The common part of all numbers: plain scalar, zero word, parse, limits.
template <class T>
bool read_number(const Node& node, T& out, std::optional<T> (*parse)(std::string_view), const Limits& limits,
                 const std::string& path, Reading& reading) {
  const std::string expected = limits.describe(type_name(T{}));
  if (!node.is_scalar()) return add_mismatch(node, expected, path, reading), false;
  if (!node.is_quoted && !limits.word.empty() && node.text == limits.word)
    return out = static_cast<T>(limits.word_value), true;
  const std::optional<T> value = node.is_quoted ? std::nullopt : parse(node.text);
  if (!value || !limits.contains(static_cast<double>(*value)))
    return add_mismatch(node, expected, path, reading), false;
  if (is_too_large(*value))
    return add_mismatch(node, fmt::format("{}, at most {}", expected, most_integer), path, reading), false;
  out = *value;
  return true;
}

std::optional<int> parse_int(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > std::numeric_limits<int>::max() || *value < std::numeric_limits<int>::min())
    return std::nullopt;
  return static_cast<int>(*value);
}

/// Reads every item of a list with the scalar reader of its type.
template <class T>
bool read_list(const Node& node, std::vector<T>& out, const Limits& limits, const std::string& expected,
               const std::string& path, Reading& reading) {
  if (!node.is_sequence()) return add_mismatch(node, expected, path, reading), false;
  std::vector<T> values(node.items.size());
  bool is_good = true;
  for (std::size_t i = 0; i < values.size(); ++i)
    is_good &= read_value(node.items[i], values[i], limits, fmt::format("{}[{}]", path, i), reading);
  if (is_good) out = std::move(values);
  return is_good;
}

template <class T>
std::optional<Node> write_number(T value, const Limits& limits) {
  if (value == static_cast<T>(limits.word_value) && !limits.word.empty()) return scalar(limits.word);
  if (value == T{} && limits.omits_zero) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) return scalar(number_text(value));
  else return scalar(fmt::format("{}", value));
}

template <class List>
std::optional<Node> write_list(const List& values) {
  std::vector<Node> items;
  for (const auto& value : values) items.push_back(*write_value(value, Limits{}));
  return sequence(std::move(items));
}

}  // namespace

Place Reading::place_of(std::initializer_list<std::string> paths) const {
  for (const std::string& path : paths)
    if (const auto found = places.find(path); found != places.end()) return found->second;
  return {};
}

bool Limits::contains(double value) const {
  const bool is_above = excludes_least ? value > least : value >= least;
  const bool is_below = excludes_most ? value < most : value <= most;
  return is_above && is_below;
}

std::string Limits::describe(const std::string& type) const {
  if (!choices.empty()) return join(choices, " | ");
  const std::string or_word = word.empty() ? "" : word + " | ";
  const bool has_least = least > -std::numeric_limits<double>::infinity();
  const bool has_most = most < std::numeric_limits<double>::infinity();
  if (has_least && has_most)
    return fmt::format("{}{} in {}{}, {}{}", or_word, type, excludes_least ? "(" : "[", bound_text(least),
                       bound_text(most), excludes_most ? ")" : "]");
  if (has_least) return fmt::format("{}{} {} {}", or_word, type, excludes_least ? ">" : ">=", bound_text(least));
  if (has_most) return fmt::format("{}{} {} {}", or_word, type, excludes_most ? "<" : "<=", bound_text(most));
  return or_word + type;
}

Limits at_least(double least) { return {.least = least}; }
Limits above(double least) { return {.least = least, .excludes_least = true}; }
Limits between(double least, double most) { return {.least = least, .most = most}; }
Limits below_from(double least, double most) { return {.least = least, .most = most, .excludes_most = true}; }
Limits choice(std::vector<std::string> choices, std::vector<std::string> unavailable) {
  return {.choices = std::move(choices), .unavailable = std::move(unavailable)};
}
Limits at_least_or(const std::string& word, double least, double word_value) {
  return {.least = least, .word = word, .word_value = word_value};
}

Limits at_least_if_stated(double least, double most) { return {.least = least, .most = most, .omits_zero = true}; }
Limits above_if_stated(double least, double most) {
  return {.least = least, .most = most, .excludes_least = true, .omits_zero = true};
}

void add_mismatch(const Node& node, const std::string& expected, const std::string& path, Reading& reading) {
  reading.problems.add(node.place, path, fmt::format("expected {}, found {}", expected, node.describe()));
}

bool read_value(const Node& node, bool& out, const Limits&, const std::string& path, Reading& reading) {
  const auto value = node.is_scalar() && !node.is_quoted ? parse_boolean(node.text) : std::nullopt;
  if (!value) return add_mismatch(node, "true or false", path, reading), false;
  out = *value;
  return true;
}
bool read_value(const Node& node, int& out, const Limits& limits, const std::string& path, Reading& reading) {
  return read_number<int>(node, out, parse_int, limits, path, reading);
}
bool read_value(const Node& node, std::int64_t& out, const Limits& limits, const std::string& path, Reading& reading) {
  return read_number<std::int64_t>(node, out, parse_integer, limits, path, reading);
}
bool read_value(const Node& node, std::uint64_t& out, const Limits& limits, const std::string& path, Reading& reading) {
  return read_number<std::uint64_t>(node, out, parse_unsigned, limits, path, reading);
}
bool read_value(const Node& node, float& out, const Limits& limits, const std::string& path, Reading& reading) {
  return read_number<float>(node, out, parse_float, limits, path, reading);
}
bool read_value(const Node& node, double& out, const Limits& limits, const std::string& path, Reading& reading) {
  return read_number<double>(node, out, parse_double, limits, path, reading);
}

bool read_value(const Node& node, std::string& out, const Limits& limits, const std::string& path, Reading& reading) {
  if (!node.is_scalar() || node.text.empty()) return add_mismatch(node, limits.describe("text"), path, reading), false;
  const auto is_among = [&](const std::vector<std::string>& words) {
    return std::find(words.begin(), words.end(), node.text) != words.end();
  };
  if (is_among(limits.unavailable)) {
    reading.problems.add(
        node.place, path,
        fmt::format("'{}' is not available in this version; expected {}", node.text, limits.describe("text")));
    return false;
  }
  if (!limits.choices.empty() && !is_among(limits.choices)) {
    reading.problems.add(node.place, path,
                         fmt::format("expected {}, found {}{}", limits.describe("text"), node.describe(),
                                     did_you_mean(node.text, limits.choices)));
    return false;
  }
  out = node.text;
  return true;
}

bool read_value(const Node& node, Shape& out, const Limits&, const std::string& path, Reading& reading) {
  std::vector<std::int64_t> extents;
  if (!read_list(node, extents, at_least(1), type_name(out), path, reading)) return false;
  if (extents.empty()) return add_mismatch(node, type_name(out), path, reading), false;
  out = Shape(std::move(extents));
  return true;
}

bool read_value(const Node& node, std::vector<double>& out, const Limits& limits, const std::string& path,
                Reading& reading) {
  if (!node.is_scalar()) return read_list(node, out, limits, type_name(out), path, reading);
  double value = 0;
  if (!read_value(node, value, limits, path, reading)) return false;
  out = {value};
  return true;
}

bool read_value(const Node& node, std::vector<std::string>& out, const Limits& limits, const std::string& path,
                Reading& reading) {
  return read_list(node, out, limits, type_name(out), path, reading);
}

bool read_value(const Node& node, std::array<std::int64_t, 2>& out, const Limits& limits, const std::string& path,
                Reading& reading) {
  std::int64_t both = 0;
  if (node.is_scalar()) {
    if (!read_value(node, both, limits, path, reading)) return false;
    out = {both, both};
    return true;
  }
  std::vector<std::int64_t> values;
  if (!read_list(node, values, limits, type_name(out), path, reading)) return false;
  if (values.size() != 2) return add_mismatch(node, type_name(out), path, reading), false;
  out = {values[0], values[1]};
  return true;
}

bool read_value(const Node& node, std::optional<Range>& out, const Limits&, const std::string& path, Reading& reading) {
  std::vector<std::int64_t> values;
  if (!read_list(node, values, at_least(0), type_name(out), path, reading)) return false;
  if (values.size() != 2 || values[0] >= values[1]) return add_mismatch(node, type_name(out), path, reading), false;
  out = Range{values[0], values[1]};
  return true;
}

std::optional<Node> write_value(bool value, const Limits&) { return scalar(value ? "true" : "false"); }
std::optional<Node> write_value(int value, const Limits& limits) { return write_number(value, limits); }
std::optional<Node> write_value(std::int64_t value, const Limits& limits) { return write_number(value, limits); }
std::optional<Node> write_value(std::uint64_t value, const Limits& limits) { return write_number(value, limits); }
std::optional<Node> write_value(float value, const Limits& limits) { return write_number(value, limits); }
std::optional<Node> write_value(double value, const Limits& limits) { return write_number(value, limits); }
std::optional<Node> write_value(const std::string& value, const Limits&) {
  return value.empty() ? std::nullopt : std::optional(string_scalar(value));
}
std::optional<Node> write_value(const Shape& value, const Limits&) {
  return value.rank() == 0 ? std::nullopt : write_list(value.extents());
}
std::optional<Node> write_value(const std::vector<double>& value, const Limits&) { return write_list(value); }
std::optional<Node> write_value(const std::vector<std::string>& value, const Limits&) { return write_list(value); }
std::optional<Node> write_value(const std::array<std::int64_t, 2>& value, const Limits&) { return write_list(value); }
std::optional<Node> write_value(const std::optional<Range>& value, const Limits&) {
  if (!value) return std::nullopt;
  return write_list(std::vector<std::int64_t>{value->begin, value->end});
}

std::string type_name(bool) { return "true | false"; }
std::string type_name(int) { return "integer"; }
std::string type_name(std::int64_t) { return "integer"; }
std::string type_name(std::uint64_t) { return "integer"; }
std::string type_name(float) { return "number"; }
std::string type_name(double) { return "number"; }
std::string type_name(const std::string&) { return "text"; }
std::string type_name(const Shape&) { return "a list of extents >= 1, e.g. [1, 28, 28]"; }
std::string type_name(const std::vector<double>&) { return "number or list of numbers"; }
std::string type_name(const std::vector<std::string>&) { return "list of texts"; }
std::string type_name(const std::array<std::int64_t, 2>&) { return "integer or [height, width]"; }
std::string type_name(const std::optional<Range>&) { return "[first, end) as two integers, e.g. [0, 50000]"; }

}  // namespace muster::config
