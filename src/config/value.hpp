// Values of keys: reading a node into a typed field with its limits, and writing it back. One overload per type.
#pragma once

#include "config/node.hpp"
#include "config/problems.hpp"

#include <muster/base/ids.hpp>
#include <muster/tensor/shape.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::config {

/// What one pass over a document collects besides the values: problems, and where each key was given.
struct Reading {
  Problems problems;
  std::map<std::string, Place> places;  ///< by full path, e.g. "optimizer.adamw.lr"
  bool has(const std::string& path) const { return places.contains(path); }
  /// Place of the first of the paths that was given, else an empty place.
  Place place_of(std::initializer_list<std::string> paths) const;
};

/// Which values a key takes. Built with the functions below, or with designated initializers.
struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool excludes_least = false;
  bool excludes_most = false;
  std::vector<std::string> choices{};      ///< of a text
  std::vector<std::string> unavailable{};  ///< planned choices: "not available in this version"
  std::string word{};                      ///< a word for one value, e.g. "auto" ...
  double word_value = 0;                   ///< ... and that value
  bool omits_zero = false;                 ///< the value 0 means: not stated

  bool contains(double value) const;
  /// "integer >= 1", "number in [0, 1)", "mirrored | multi_worker_mirrored".
  std::string describe(const std::string& type) const;
};

Limits at_least(double least);
Limits above(double least);
Limits between(double least, double most);
/// [least, most): a rate.
Limits below_from(double least, double most);
Limits choice(std::vector<std::string> choices, std::vector<std::string> unavailable = {});
/// At least this, or a word that stands for word_value.
Limits at_least_or(const std::string& word, double least, double word_value = 0);
/// At least this, or not stated at all (kept as 0).
Limits at_least_if_stated(double least, double most = std::numeric_limits<double>::infinity());
Limits above_if_stated(double least, double most = std::numeric_limits<double>::infinity());

/// Reads one value; adds a problem and leaves the target alone where it does not fit.
bool read_value(const Node& node, bool& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, int& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, std::int64_t& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, std::uint64_t& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, float& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, double& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, std::string& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, Shape& out, const Limits& limits, const std::string& path, Reading& reading);
bool read_value(const Node& node, std::vector<double>& out, const Limits& limits, const std::string& path,
                Reading& reading);
bool read_value(const Node& node, std::vector<std::string>& out, const Limits& limits, const std::string& path,
                Reading& reading);
/// One number for both axes, or [height, width].
bool read_value(const Node& node, std::array<std::int64_t, 2>& out, const Limits& limits, const std::string& path,
                Reading& reading);
/// [begin, end)
bool read_value(const Node& node, std::optional<Range>& out, const Limits& limits, const std::string& path,
                Reading& reading);

std::optional<Node> write_value(bool value, const Limits& limits);
std::optional<Node> write_value(int value, const Limits& limits);
std::optional<Node> write_value(std::int64_t value, const Limits& limits);
std::optional<Node> write_value(std::uint64_t value, const Limits& limits);
std::optional<Node> write_value(float value, const Limits& limits);
std::optional<Node> write_value(double value, const Limits& limits);
/// Empty text: not stated.
std::optional<Node> write_value(const std::string& value, const Limits& limits);
std::optional<Node> write_value(const Shape& value, const Limits& limits);
std::optional<Node> write_value(const std::vector<double>& value, const Limits& limits);
std::optional<Node> write_value(const std::vector<std::string>& value, const Limits& limits);
std::optional<Node> write_value(const std::array<std::int64_t, 2>& value, const Limits& limits);
std::optional<Node> write_value(const std::optional<Range>& value, const Limits& limits);

/// The type's name in messages and the reference.
std::string type_name(bool);
std::string type_name(int);
std::string type_name(std::int64_t);
std::string type_name(std::uint64_t);
std::string type_name(float);
std::string type_name(double);
std::string type_name(const std::string&);
std::string type_name(const Shape&);
std::string type_name(const std::vector<double>&);
std::string type_name(const std::vector<std::string>&);
std::string type_name(const std::array<std::int64_t, 2>&);
std::string type_name(const std::optional<Range>&);

/// Adds "expected X, found Y" with the node's place.
void add_mismatch(const Node& node, const std::string& expected, const std::string& path, Reading& reading);

}  // namespace muster::config
