// Values from outside the file: environment variables and --set. They are put into the tree before it is read, so that
// they meet the same checks; each node keeps its origin for messages.
#pragma once

#include "config/node.hpp"
#include "config/problems.hpp"

#include <string>
#include <vector>

namespace muster::config {

struct Override {
  std::string path;    ///< "optimizer.lr"
  std::string origin;  ///< "--set optimizer.lr"
  Node value;          ///< null: take the key out
};

/// Parses "key=value" texts.
std::vector<Override> overrides_from_sets(const std::vector<std::string>& sets, Problems& problems);
/// MUSTER_<SECTION>_<KEY> variables of the environment. Another MUSTER_ name is a problem, but for the few that the
/// README lists.
std::vector<Override> overrides_from_environment(Problems& problems);

/// Puts a value in. `optimizer.lr` finds its way below the kind that is chosen; keys that exclude the new one are taken
/// out.
void apply_override(Node& root, const Override& override_, Problems& problems);

/// Whether a value at `whole` takes the place of one given before at `path`: the same key, with or without its kind
/// (optimizer.sgd.lr, optimizer.lr), or a map that holds it.
bool replaces(const std::string& whole, const std::string& path);

/// Every path an environment variable or --set can name (kinds left out: optimizer.lr).
std::vector<std::string> override_paths();

}  // namespace muster::config
