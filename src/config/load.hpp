// The halves of loading a config, for those who put something in between.
#pragma once

#include "config/overrides.hpp"
#include "config/value.hpp"

#include <muster/config/config.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace muster::config {

/// Parses the document; an empty one is an empty map. Throws Error(usage) for syntax errors.
Node read_root(const std::string& text, const std::string& name, Reading& reading);
/// Puts the overrides in, `last` after all others, reads and checks.
Loaded read_tree(Node root, const std::string& name, const std::filesystem::path& folder, const Overrides& overrides,
                 Reading& reading, const std::vector<Override>& last = {});
/// The text of a config file. Throws Error(usage).
std::string read_config_file(const std::string& file);

}  // namespace muster::config
