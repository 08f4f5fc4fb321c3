// Everything that is wrong with a config, collected to be told at once.
#pragma once

#include "config/node.hpp"

#include <string>
#include <vector>

namespace muster::config {

class Problems {
 public:
  /// One line: "file:line:column: key: message". key may be empty.
  void add(const Place& place, const std::string& key, const std::string& message);
  bool empty() const { return lines_.empty(); }
  std::size_t size() const { return lines_.size(); }
  /// Throws Error(usage) with all lines, in the order of the file, if there are any.
  void throw_if_any() const;

 private:
  struct Line {
    Place place;
    std::string text;
  };
  std::vector<Line> lines_;
};

}  // namespace muster::config
