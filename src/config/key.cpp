#include "config/key.hpp"

namespace muster::config {

std::string join_path(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

void add_unknown_key(const Node::Entry& entry, const std::vector<std::string>& known, const std::string& path,
                     const std::string& hint, Reading& reading) {
  std::string more = hint;
  if (more.empty()) {
    more = "unknown key" + did_you_mean(entry.key, known);
    if (more == "unknown key")
      more += known.empty() ? "; no keys are expected here" : "; known here: " + join(known, ", ");
  }
  reading.problems.add(entry.place, path, more);
}

bool expect_map(const Node& node, const std::vector<std::string>& known, const std::string& path, Reading& reading) {
  if (node.is_map()) return true;
  reading.problems.add(node.place, path,
                       fmt::format("expected a map of {}, found {}", join(known, ", "), node.describe()));
  return false;
}

void add_missing(const Node& node, const std::vector<KeyFacts>& keys, const std::string& path, Reading& reading) {
  for (const KeyFacts& key : keys) {
    if (!key.is_required) continue;
    const Node* deepest = &node;
    bool is_missing = false;
    for (const std::string& part : split(key.path, '.')) {
      const Node* next = deepest->find(part);
      is_missing = !next;
      if (is_missing) break;
      deepest = next;
    }
    if (!key.supplied_by.empty() && deepest->find(key.supplied_by)) continue;
    if (is_missing && (deepest->is_map() || deepest->is_null()))
      reading.problems.add(deepest->place, join_path(path, key.path), fmt::format("missing; expected {}", key.type));
  }
}

std::optional<Chosen> choose(const Node& node, const std::vector<std::string>& known, const std::string& path,
                             Reading& reading) {
  Chosen chosen;
  if (node.is_scalar()) {
    chosen = {node.text, node.place, nullptr};
  } else if (node.is_map() && node.entries.size() == 1) {
    chosen = {node.entries[0].key, node.entries[0].place, &node.entries[0].value};
  } else if (node.is_map() && node.entries.size() > 1) {
    std::vector<std::string> names;
    for (const auto& entry : node.entries) names.push_back(entry.key);
    const bool is_second_kind = std::find(known.begin(), known.end(), names[1]) != known.end();
    reading.problems.add(
        node.entries[1].place, path,
        fmt::format("expected one of {} with its keys below it, found {} keys: {}{}", join(known, ", "), names.size(),
                    join(names, ", "),
                    is_second_kind ? "" : fmt::format("; indent '{}' below '{}'", names[1], names[0])));
    return std::nullopt;
  } else {
    reading.problems.add(node.place, path,
                         fmt::format("expected one of {}, found {}", join(known, ", "), node.describe()));
    return std::nullopt;
  }
  if (std::find(known.begin(), known.end(), chosen.name) != known.end()) return chosen;
  const std::string suggestion = did_you_mean(chosen.name, known);
  reading.problems.add(chosen.place, path,
                       fmt::format("unknown '{}'{}", chosen.name,
                                   suggestion.empty() ? "; expected one of " + join(known, ", ") : suggestion));
  return std::nullopt;
}

}  // namespace muster::config
