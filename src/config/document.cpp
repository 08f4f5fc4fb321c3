// Builds the Node tree from yaml-cpp's events rather than from its nodes: events keep duplicate keys, the order of keys
// and whether a scalar was quoted, and cost no shared pointers.
#include "config/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

namespace muster::config {
namespace {

constexpr std::size_t most_nodes = 200'000;  // aliases can make a small file endless

/// Thrown to leave the parser; the problem has been added already.
struct Abandon {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string name, Problems& problems) : name_(std::move(name)), problems_(problems) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(make(Node::Kind::null, mark), anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Node node = make(Node::Kind::scalar, mark);
    node.text = text;
    node.is_quoted = tag == "!";
    if (tag != "!" && tag != "?" && !tag.empty()) refuse_tag(node.place, tag);
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      problems_.add(place(mark), "", "an alias inside the node it stands for: write the value out");
      throw Abandon{};
    }
    count(found->second);
    add(found->second, 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // map: the next node is a value
    Node key;
  };

  Place place(const YAML::Mark& mark) const { return {name_, mark.line + 1, mark.column + 1}; }

  Node make(Node::Kind kind, const YAML::Mark& mark) {
    Node node;
    node.kind = kind;
    node.place = place(mark);
    if (++nodes_ > most_nodes) too_many(node.place);
    return node;
  }

  [[noreturn]] void too_many(const Place& where) {
    problems_.add(where, "", fmt::format("more than {} values in one config; aliases multiply them", most_nodes));
    throw Abandon{};
  }

  void refuse_tag(const Place& where, const std::string& tag) {
    problems_.add(where, "", fmt::format("the tag {} means nothing here: remove it", tag));
  }

  void count(const Node& node) {
    if (++nodes_ > most_nodes) too_many(node.place);
    for (const Node& item : node.items) count(item);
    for (const Node::Entry& entry : node.entries) count(entry.value);
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Node node = make(kind, mark);
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(node.place, tag);
    stack_.push_back({std::move(node), anchor, false, {}});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (stack_.empty()) root_ = std::move(node);
    else if (stack_.back().node.is_sequence()) stack_.back().node.items.push_back(std::move(node));
    else if (!stack_.back().has_key) take_key(std::move(node));
    else take_value(std::move(node));
  }

  void take_key(Node key) {
    stack_.back().has_key = true;
    if (!key.is_scalar()) {
      problems_.add(key.place, "", fmt::format("expected a name as key, found {}", key.describe()));
      key.text = "?";
    }
    stack_.back().key = std::move(key);
  }

  void take_value(Node value) {
    Open& parent = stack_.back();
    if (value.is_null()) value.place = parent.key.place;
    for (const Node::Entry& entry : parent.node.entries) {
      if (entry.key != parent.key.text) continue;
      problems_.add(parent.key.place, path(),
                    fmt::format("duplicate key, first given at {}:{}", entry.place.line, entry.place.column));
      parent.has_key = false;
      return;
    }
    parent.has_key = false;
    parent.node.entries.push_back({parent.key.text, parent.key.place, std::move(value)});
  }

  /// "model.layers[1].dense.units": of the value being taken.
  std::string path() const {
    std::string path;
    for (const Open& open : stack_) {
      if (open.node.is_sequence()) path += fmt::format("[{}]", open.node.items.size());
      else path += (path.empty() ? "" : ".") + open.key.text;
    }
    return path;
  }

  std::string name_;
  Problems& problems_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  std::size_t nodes_ = 0;
};

/// A tab in the indentation has many odd messages in the parser; it deserves one good one.
bool is_indented_by_tab(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string current;
  for (int i = 0; i <= line && std::getline(lines, current); ++i) continue;
  const std::size_t first = current.find_first_not_of(' ');
  return first != std::string::npos && current[first] == '\t';
}

void set_origin(Node& node, const Place& place) {
  node.place = place;
  for (Node& item : node.items) set_origin(item, place);
  for (Node::Entry& entry : node.entries) {
    entry.place = place;
    set_origin(entry.value, place);
  }
}

}  // namespace

Node parse_document(const std::string& text, const std::string& name, Problems& problems) {
  TreeBuilder builder(name, problems);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Node root = builder.take();
    TreeBuilder rest(name, problems);
    if (parser.HandleNextDocument(rest))
      problems.add(rest.take().place, "", "expected one document, found a second one");
    return root;
  } catch (const YAML::ParserException& error) {
    const bool is_tab = is_indented_by_tab(text, error.mark.line);
    problems.add({name, error.mark.line + 1, error.mark.column + 1}, "",
                 "YAML syntax: " + (is_tab ? "a tab in the indentation; use spaces" : error.msg));
  } catch (const Abandon&) {
  }
  return {};
}

Node parse_value(const std::string& text, const std::string& origin, const std::string& key, Problems& problems) {
  Problems inner;
  Node node = parse_document(text, origin, inner);
  if (!inner.empty()) problems.add({origin, 0, 0}, key, fmt::format("cannot read '{}' as a YAML value", text));
  set_origin(node, {origin, 0, 0});
  return node;
}

}  // namespace muster::config
