// The table's entries. A Key is everything muster knows about one key: path, type, limits, unit, default, meaning, how
// to read it into its options struct and how to write it back. A Kind is a group of keys chosen by a single word, as in
// `optimizer: {adamw: {lr: 1e-3}}` or a layer. Parser, --set, environment, effective config and reference all walk
// these.
#pragma once

#include "config/value.hpp"

#include <muster/base/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::config {

/// What the reference and the overrides need to know of a key, whatever struct it writes to.
struct KeyFacts {
  std::string path;     ///< inside its section or kind, dots between levels
  std::string type;     ///< "integer >= 1"
  std::string unit;     ///< "s", "KiB", "epochs", ...; may be empty
  std::string meaning;  ///< one line
  std::string example;  ///< shown in the reference where there is no default
  bool is_required = false;
  std::string supplied_by = {};  ///< a key of the same map that stands in for a required one
  struct Group;
  std::vector<Group> groups;  ///< the kinds the value may be; one without a name: the keys of its map form
};
struct KeyFacts::Group {
  std::string name;
  std::string meaning;
  std::vector<KeyFacts> keys;
  Node defaults;  ///< map of the keys' default values
};

template <class Target>
struct Key {
  KeyFacts facts;
  std::function<void(const Node&, Target&, const std::string& path, Reading&)> set;
  std::function<std::optional<Node>(const Target&)> get;  ///< nullopt: not stated
  std::function<std::optional<Node>(const Target&)> get_default =
      {};  ///< what get would say by default, for the same kind

  Key& unit(std::string text) { return facts.unit = std::move(text), *this; }
  Key& example(std::string text) { return facts.example = std::move(text), *this; }
  Key& required() { return facts.is_required = true, *this; }
};

template <class Target>
struct Kind {
  std::string name;
  std::string meaning;
  std::vector<Key<Target>> keys;
  std::function<void(Target&)> begin;  ///< sets the kind and its defaults
};

/// A key stored in one field: `field` maps a target to a reference to it.
template <class Target, class Field>
Key<Target> key(const std::string& path, Field field, Limits limits, const std::string& meaning) {
  Target* none = nullptr;
  using Value = std::remove_cvref_t<decltype(field(*none))>;
  Key<Target> made;
  made.facts.path = path;
  made.facts.type = limits.describe(type_name(Value{}));
  made.facts.meaning = meaning;
  made.set = [field, limits](const Node& node, Target& target, const std::string& full, Reading& reading) {
    read_value(node, field(target), limits, full, reading);
  };
  made.get = [field, limits](const Target& target) { return write_value(field(const_cast<Target&>(target)), limits); };
  return made;
}

/// Names of the keys directly below `prefix` ("" or "grid.").
template <class Target>
std::vector<std::string> names_below(const std::vector<Key<Target>>& keys, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Key<Target>& key : keys) {
    if (!key.facts.path.starts_with(prefix)) continue;
    std::string name = key.facts.path.substr(prefix.size());
    name = name.substr(0, name.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string join_path(const std::string& path, const std::string& key);
/// "unknown key", with a suggestion or else the list of known ones. hint: said instead, when not empty.
void add_unknown_key(const Node::Entry& entry, const std::vector<std::string>& known, const std::string& path,
                     const std::string& hint, Reading& reading);
/// Adds a problem unless the node is a map.
bool expect_map(const Node& node, const std::vector<std::string>& known, const std::string& path, Reading& reading);

/// Adds a problem for every required key that the map lacks.
void add_missing(const Node& node, const std::vector<KeyFacts>& keys, const std::string& path, Reading& reading);

template <class Target>
std::vector<KeyFacts> facts_of(const std::vector<Key<Target>>& keys) {
  std::vector<KeyFacts> facts;
  for (const auto& key : keys) facts.push_back(key.facts);
  return facts;
}

/// A reason why a key is refused that deserves better words than "unknown key"; "" for none.
using Hint = std::function<std::string(const std::string& full_path)>;

/// Reads a map by the table. path: full path of the map, for messages; prefix: of the keys inside the table.
template <class Target>
void read_map(const Node& node, const std::vector<Key<Target>>& keys, Target& target, const std::string& path,
              Reading& reading, const Hint& hint = {}, const std::string& prefix = "") {
  if (!expect_map(node, names_below(keys, prefix), path, reading)) return;
  for (const Node::Entry& entry : node.entries) {
    const std::string full = join_path(path, entry.key);
    const std::string local = prefix + entry.key;
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.facts.path == local; });
    if (found != keys.end()) {
      reading.places[full] = entry.value.is_null() ? entry.place : entry.value.place;
      found->set(entry.value, target, full, reading);
    } else if (!names_below(keys, local + ".").empty()) {
      read_map(entry.value, keys, target, full, reading, hint, local + ".");
    } else {
      add_unknown_key(entry, names_below(keys, prefix), full, hint ? hint(full) : "", reading);
    }
  }
  if (prefix.empty()) add_missing(node, facts_of(keys), path, reading);
}

/// A node that names one kind: the name alone, or a map of the one name to its keys.
struct Chosen {
  std::string name;
  Place place;
  const Node* keys = nullptr;  ///< null: the name alone
};
std::optional<Chosen> choose(const Node& node, const std::vector<std::string>& known, const std::string& path,
                             Reading& reading);

template <class Target>
std::vector<std::string> names_of(const std::vector<Kind<Target>>& kinds) {
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.push_back(kind.name);
  return names;
}

template <class Target>
void read_keys(const Kind<Target>& kind, const Chosen& chosen, Target& target, const std::string& path,
               Reading& reading, const Hint& hint = {}) {
  kind.begin(target);
  reading.places[path] = chosen.place;
  Node none = map();
  none.place = chosen.place;
  read_map(chosen.keys && !chosen.keys->is_null() ? *chosen.keys : none, kind.keys, target, path, reading, hint);
}

/// Reads a node that names one kind. Returns it, or null after adding a problem.
template <class Target>
const Kind<Target>* read_kind(const Node& node, const std::vector<Kind<Target>>& kinds, Target& target,
                              const std::string& path, Reading& reading, const Hint& hint = {}) {
  const auto chosen = choose(node, names_of(kinds), path, reading);
  if (!chosen) return nullptr;
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == chosen->name; });
  read_keys(*found, *chosen, target, join_path(path, found->name), reading, hint);
  return &*found;
}

/// A map of what the keys say; nested where their paths have dots.
template <class Target>
Node write_keys(const std::vector<Key<Target>>& keys, const Target& target) {
  Node out = map();
  for (const Key<Target>& key : keys) {
    const auto value = key.get(target);
    if (!value) continue;
    Node* place = &out;
    const auto parts = split(key.facts.path, '.');
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      Node* inner = place->find(parts[i]);
      place = inner ? inner : &place->put(parts[i], map());
    }
    place->put(parts.back(), *value);
  }
  return out;
}

/// {name: {keys}}, or the name alone where there are no keys.
template <class Target>
Node write_kind(const Kind<Target>& kind, const Target& target) {
  Node keys = write_keys(kind.keys, target);
  if (keys.entries.empty()) return scalar(kind.name);
  return map({{kind.name, std::move(keys)}});
}

/// The kind with its defaults.
template <class Target>
Node write_default(const Kind<Target>& kind) {
  Target target{};
  kind.begin(target);
  return write_kind(kind, target);
}

template <class Target>
std::vector<KeyFacts::Group> groups_of(const std::vector<Kind<Target>>& kinds) {
  std::vector<KeyFacts::Group> groups;
  for (const auto& kind : kinds) {
    Target target{};
    kind.begin(target);
    groups.push_back({kind.name, kind.meaning, facts_of(kind.keys), write_keys(kind.keys, target)});
  }
  return groups;
}

}  // namespace muster::config
