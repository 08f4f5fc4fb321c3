// Durations as people and Slurm write them: "90 s", "30 min", "2 h", "1.5 d", "HH:MM:SS", "D-HH:MM:SS".
#include "config/number.hpp"
#include "config/table.hpp"

#include <map>

namespace muster::config {
namespace {

constexpr const char* wall_time_type = "a duration ('90 s', '30 min', '2 h', 'HH:MM:SS', 'D-HH:MM:SS'), auto or never";
constexpr double longest_s = 1e9;

std::optional<double> parse_words(const std::string& text) {
  static const std::map<std::string, double> units{{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  const auto words = split(text, ' ');
  if (words.size() != 2 || !units.contains(words[1])) return std::nullopt;
  const auto count = parse_double(words[0]);
  return count ? std::optional(*count * units.at(words[1])) : std::nullopt;
}

/// Two digits below a limit.
std::optional<double> parse_two_digits(const std::string& text, int limit) {
  if (text.size() != 2 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const int value = (text[0] - '0') * 10 + (text[1] - '0');
  return value < limit ? std::optional<double>(value) : std::nullopt;
}

std::optional<double> parse_clock(const std::string& text) {
  const std::size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  const auto days = has_days ? parse_integer(text.substr(0, dash)) : std::optional<std::int64_t>(0);
  const auto parts = split(has_days ? text.substr(dash + 1) : text, ':');
  if (!days || *days < 0 || parts.size() != 3) return std::nullopt;
  const auto hours = parse_two_digits(parts[0], has_days ? 24 : 100);
  const auto minutes = parse_two_digits(parts[1], 60), seconds = parse_two_digits(parts[2], 60);
  if (!hours || !minutes || !seconds) return std::nullopt;
  return static_cast<double>(*days) * 86400 + *hours * 3600 + *minutes * 60 + *seconds;
}

std::optional<train::WallTime> parse_wall_time(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (node.text == "auto") return train::WallTime{};
  if (node.text == "never") return train::WallTime{false, 0};
  auto seconds = parse_words(node.text);
  if (!seconds) seconds = parse_clock(node.text);
  if (!seconds || !(*seconds > 0) || *seconds > longest_s) return std::nullopt;
  return train::WallTime{false, *seconds};
}

Node write_wall_time(const train::WallTime& value) {
  if (value.is_auto) return scalar("auto");
  return scalar(value.seconds > 0 ? number_text(value.seconds) + " s" : "never");
}

}  // namespace

ConfigKey wall_time_key(const std::string& path, train::WallTime& (*field)(Config&), const std::string& meaning) {
  return key_of(path, field, wall_time_type, parse_wall_time, write_wall_time, meaning);
}

}  // namespace muster::config
