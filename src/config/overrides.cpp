#include "config/overrides.hpp"

#include "config/document.hpp"
#include "config/table.hpp"

#include <muster/base/text.hpp>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cctype>

namespace muster::config {
namespace {

constexpr std::string_view variable_prefix = "MUSTER_";

std::string variable_name(const std::string& path) {
  std::string name(variable_prefix);
  for (const char c : path) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// Variables that are no keys; the README says what each is for.
const std::vector<std::string>& other_variables() {
  static const std::vector<std::string> all{
      "MUSTER_PROGRESS",        "MUSTER_STATUS_FILE",    "MUSTER_SKIP_INSTALL", "MUSTER_SOURCE",
      "MUSTER_BUILD",           "MUSTER_FAKE_NODE_SIZE", "MUSTER_REDUCE",       "MUSTER_SLOW_WORKER",
      "MUSTER_MPI_PIECE_BYTES", "MUSTER_CUDA_PLUGIN",
  };
  return all;
}

/// The table's entry whose value is one of several kinds, at this path; null for others.
const KeyFacts* kinds_at(const std::string& path) {
  for (const ConfigKey& key : table())
    if (key.facts.path == path && !key.facts.groups.empty()) return &key.facts;
  return nullptr;
}

bool is_list(const std::string& path) { return path == "data.transforms" || path == "model.layers"; }

/// Setting the first takes the others out.
struct Exclusion {
  std::string path;
  std::vector<std::string> others;
};
const std::vector<Exclusion>& exclusions() {
  static const std::vector<Exclusion> all{
      {"run.epochs", {"run.steps"}},
      {"run.steps", {"run.epochs"}},
      {"data.train", {"data.synthetic"}},
      {"data.test", {"data.synthetic"}},
      {"data.synthetic", {"data.train", "data.test"}},
      {"model.file", {"model.input", "model.layers", "model.loss", "model.metrics"}},
  };
  return all;
}
/// The same inside the map that holds the key.
const std::vector<std::pair<std::string, std::string>>& siblings() {
  static const std::vector<std::pair<std::string, std::string>> all{
      {"warmup_epochs", "warmup_steps"}, {"warmup_steps", "warmup_epochs"}, {"file", "files"}, {"files", "file"}};
  return all;
}

void remove_path(Node& root, const std::string& path) {
  Node* node = &root;
  const auto parts = split(path, '.');
  for (std::size_t i = 0; i + 1 < parts.size() && node; ++i) node = node->find(parts[i]);
  if (node) node->remove(parts.back());
}

/// Adds or replaces an entry whose key and value have this place.
Node& put_at(Node& node, const std::string& key, Node value, const Place& place) {
  value.place = place;
  Node& stored = node.put(key, std::move(value));
  for (Node::Entry& entry : node.entries)
    if (entry.key == key) entry.place = place;
  return stored;
}

/// Makes the node one that has keys: a bare word becomes {word: {}}, a file name {file: name}.
void open_scalar(Node& node, const KeyFacts& facts) {
  if (node.is_map()) return;
  const Place place = node.place;
  Node inner = map();
  inner.place = place;
  if (node.is_scalar() && facts.groups.front().name.empty()) node = map({{"file", node}});
  else if (node.is_scalar()) node = map({{node.text, inner}});
  else node = map();
  node.place = place;
}

/// The kind the config has now: the one key, without the prefix warmup_.
std::string default_kind(const std::string& path) {
  for (const ConfigKey& key : table())
    if (key.facts.path == path)
      if (const auto value = key.get(Config{})) return value->is_scalar() ? value->text : value->entries.front().key;
  return "";
}

/// Goes from the node of a one-of-several-kinds key to the map of the kind's keys. Returns null after a problem.
Node* enter_kind(Node& node, const KeyFacts& facts, const Override& given, std::vector<std::string>& rest) {
  open_scalar(node, facts);
  if (facts.groups.front().name.empty()) return &node;
  if (node.entries.empty()) put_at(node, default_kind(facts.path), map(), {given.origin, 0, 0});
  if (node.entries.size() != 1) return nullptr;  // reading the config will say what is wrong with it
  Node::Entry& current = node.entries.front();
  if (rest.front() == current.key) rest.erase(rest.begin());
  if (current.value.is_null()) {
    current.value = map();
    current.value.place = current.place;
  }
  return &current.value;
}

bool names_other_kind(const Node& node, const KeyFacts& facts, const std::string& word) {
  const bool is_kind =
      std::any_of(facts.groups.begin(), facts.groups.end(), [&](const auto& group) { return group.name == word; });
  const std::string now = node.is_scalar()                         ? node.text
                          : node.is_map() && !node.entries.empty() ? node.entries.front().key
                                                                   : default_kind(facts.path);
  return is_kind && word != now;
}

/// optimizer.sgd.lr -> optimizer.lr; a kind at the end stays.
std::string without_kind(const std::string& path) {
  for (const ConfigKey& key : table())
    for (const auto& group : key.facts.groups) {
      const std::string prefix = key.facts.path + "." + group.name + ".";
      if (!group.name.empty() && path.starts_with(prefix)) return key.facts.path + "." + path.substr(prefix.size());
    }
  return path;
}

}  // namespace

bool replaces(const std::string& whole, const std::string& path) {
  const std::string below = without_kind(path), above = without_kind(whole);
  return below == above || below.starts_with(above + ".");
}

std::vector<Override> overrides_from_sets(const std::vector<std::string>& sets, Problems& problems) {
  std::vector<Override> overrides;
  for (const std::string& text : sets) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.add({"--set " + text, 0, 0}, "", "expected key=value, e.g. --set optimizer.lr=0.01");
      continue;
    }
    Override one;
    one.path = text.substr(0, equals);
    one.origin = "--set " + one.path;
    one.value = parse_value(text.substr(equals + 1), one.origin, one.path, problems);
    overrides.push_back(std::move(one));
  }
  return overrides;
}

std::vector<std::string> override_paths() {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  };
  for (const ConfigKey& key : table()) {
    add(key.facts.path);
    if (is_list(key.facts.path)) continue;
    for (const auto& group : key.facts.groups)
      for (const KeyFacts& inner : group.keys) add(key.facts.path + "." + inner.path);
  }
  return paths;
}

std::vector<Override> overrides_from_environment(Problems& problems) {
  std::vector<Override> overrides;
  const std::vector<std::string> paths = override_paths();
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(variable_name(path));
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!text.starts_with(variable_prefix)) continue;
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    const auto found = std::find(names.begin(), names.end(), name);
    const std::string origin = "environment " + name;
    if (found != names.end()) {
      const std::string& path = paths[static_cast<std::size_t>(found - names.begin())];
      overrides.push_back(
          {path, origin, parse_value(text.substr(std::min(equals + 1, text.size())), origin, path, problems)});
      continue;
    }
    const auto& others = other_variables();
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    std::vector<std::string> known = names;  // names itself stays in step with paths
    known.insert(known.end(), others.begin(), others.end());
    problems.add({origin, 0, 0}, "",
                 "names no key and nothing else that muster knows; unset it" + did_you_mean(name, known));
  }
  std::sort(overrides.begin(), overrides.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return overrides;
}

void apply_override(Node& root, const Override& given, Problems& problems) {
  const Place place{given.origin, 0, 0};
  if (given.value.is_null()) return remove_path(root, given.path);
  for (const Exclusion& exclusion : exclusions())
    if (given.path == exclusion.path || given.path.starts_with(exclusion.path + "."))
      for (const std::string& other : exclusion.others) remove_path(root, other);
  std::vector<std::string> rest = split(given.path, '.');
  Node* node = &root;
  std::string path;
  while (rest.size() > 1) {
    path = join_path(path, rest.front());
    Node* next = node->find(rest.front());
    if (!next) {
      next = &put_at(*node, rest.front(), map(), place);
    }
    node = next;
    rest.erase(rest.begin());
    if (is_list(path)) return problems.add(place, given.path, "a list can only be given as a whole");
    const KeyFacts* facts = kinds_at(path);
    if (facts && rest.size() > 1 && names_other_kind(*node, *facts, rest.front()))
      return problems.add(place, given.path,
                          fmt::format("the config does not use '{0}'; give it as a whole: --set {1}='{{{0}: {{...}}}}'",
                                      rest.front(), path));
    if (facts) node = enter_kind(*node, *facts, given, rest);
    if (!node || rest.empty()) break;
    if (!node->is_map()) {
      if (node->is_null()) *node = map(), node->place = place;
      else
        return problems.add(
            node->place, path,
            fmt::format("expected a map, found {}; {} cannot go below it", node->describe(), given.origin));
    }
  }
  if (!node || rest.empty()) return;
  for (const auto& [name, other] : siblings())
    if (rest.front() == name) node->remove(other);
  put_at(*node, rest.front(), given.value, place);
}

}  // namespace muster::config
