#include "config/problems.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <tuple>

namespace muster::config {

void Problems::add(const Place& place, const std::string& key, const std::string& message) {
  std::string text = place.text();
  if (!key.empty()) text += ": " + key;
  text += ": " + message;
  const auto is_same = [&](const Line& line) { return line.text == text; };
  if (std::none_of(lines_.begin(), lines_.end(), is_same)) lines_.push_back({place, std::move(text)});
}

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  std::vector<Line> sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line& a, const Line& b) {
    return std::tie(a.place.origin, a.place.line, a.place.column) <
           std::tie(b.place.origin, b.place.line, b.place.column);
  });
  std::vector<std::string> lines;
  for (Line& line : sorted) lines.push_back(std::move(line.text));
  throw Error(ExitCode::usage, join(lines, "\n"));
}

}  // namespace muster::config
