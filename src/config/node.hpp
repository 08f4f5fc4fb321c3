// The tree between YAML text and typed options: scalars as written, maps in order, every node with the place it came
// from. Both directions use it: documents are parsed into it, the effective config is built of it and written. Pure
// data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::config {

/// Where a value comes from: a file, "--set optimizer.lr" or "environment MUSTER_RUN_SEED". line 0: no position.
struct Place {
  std::string origin;
  int line = 0;
  int column = 0;
  /// "configs/a.yaml:12:5", or the origin alone.
  std::string text() const;
  /// "configs/a.yaml:12": for tables.
  std::string line_text() const;
};

struct Node {
  enum class Kind { null, scalar, sequence, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;        ///< scalar
  bool is_quoted = false;  ///< scalar: written in quotes, hence a string whatever it looks like
  Place place;
  std::vector<Node> items;     ///< sequence
  std::vector<Entry> entries;  ///< map, in order; keys are unique after parsing

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_sequence() const { return kind == Kind::sequence; }
  bool is_map() const { return kind == Kind::map; }

  /// The value of a key, or null pointer.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// Adds or replaces.
  Node& put(const std::string& key, Node value);
  void remove(std::string_view key);
  /// "the map {adamw: ...}", "the text 'abc'", "nothing": what was found, for messages.
  std::string describe() const;
};

struct Node::Entry {
  std::string key;
  Place place;
  Node value;
};

Node scalar(std::string text);
/// A scalar that is read back as this very string: quoted in the written form where plain text would mean something
/// else.
Node string_scalar(std::string text);
Node sequence(std::vector<Node> items);
Node map(std::vector<std::pair<std::string, Node>> entries = {});

/// One line: {adamw: {lr: 0.001}}.
std::string write_flow(const Node& node);
/// Block style; subtrees that fit into a line are written in one. Ends with a newline.
std::string write_block(const Node& node, int indent = 0);

}  // namespace muster::config
