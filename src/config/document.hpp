// YAML text -> Node tree. The only files that see yaml-cpp are this one's source and none else.
#pragma once

#include "config/node.hpp"
#include "config/problems.hpp"

#include <string>

namespace muster::config {

/// Parses one document. `name` becomes the places' origin. Syntax errors, duplicate keys, several documents and endless
/// expansion by aliases are added to the problems; what could be read is returned (null when nothing).
Node parse_document(const std::string& text, const std::string& name, Problems& problems);
/// A value from the command line or the environment: every node gets the given origin, without line numbers.
Node parse_value(const std::string& text, const std::string& origin, const std::string& key, Problems& problems);

}  // namespace muster::config
