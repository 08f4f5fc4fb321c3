// Small helpers for messages: sizes, durations, suggestions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// "1.5 GiB", "312 KiB", "17 B".
std::string human_bytes(std::uint64_t bytes);
/// "1 h 02 m", "3 m 05 s", "4.21 s", "12.3 ms".
std::string human_seconds(double seconds);
/// The candidate nearest to `word` by edit distance (at most a third of its length, at least 1), or "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);
/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace muster
