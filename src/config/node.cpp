#include "config/node.hpp"

#include "config/number.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::config {
namespace {

constexpr std::size_t line_width = 110;

/// Whether plain text would be read back as this string: no YAML syntax, no number, boolean or null.
bool is_plain(const std::string& text) {
  static constexpr std::string_view first = "/._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  static constexpr std::string_view others = "/._-+ abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (text.empty() || text.back() == ' ' || first.find(text.front()) == std::string_view::npos) return false;
  if (text.find_first_not_of(others) != std::string::npos) return false;
  return !looks_like_number(text) && !parse_boolean(text) && text != "null" && text != "Null" && text != "NULL";
}

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\', quoted += c;
    else if (static_cast<unsigned char>(c) < 0x20) quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else quoted += c;
  }
  return quoted + "\"";
}

std::string scalar_text(const Node& node) { return node.is_quoted ? quote(node.text) : node.text; }
std::string key_text(const std::string& key) { return is_plain(key) ? key : quote(key); }

void write_block_to(std::string& out, const Node& node, int indent);

/// The value after "key:" or "-": on the same line where it fits.
void write_value(std::string& out, const Node& node, int indent) {
  const std::string flow = write_flow(node);
  const bool is_nested = (node.is_map() && !node.entries.empty()) || (node.is_sequence() && !node.items.empty());
  if (!is_nested || static_cast<std::size_t>(indent) + flow.size() + 20 <= line_width) {
    out += " " + flow + "\n";
    return;
  }
  out += "\n";
  write_block_to(out, node, indent);
}

void write_block_to(std::string& out, const Node& node, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  if (node.is_map() && !node.entries.empty()) {
    for (const Node::Entry& entry : node.entries) {
      out += pad + key_text(entry.key) + ":";
      write_value(out, entry.value, indent + 2);
    }
  } else if (node.is_sequence() && !node.items.empty()) {
    for (const Node& item : node.items) {
      if (!item.is_map() || item.entries.empty()) {
        out += pad + "- " + write_flow(item) + "\n";
        continue;
      }
      std::string block;
      write_block_to(block, item, indent + 2);
      block[pad.size()] = '-';  // the first key of the map follows the dash
      out += block;
    }
  } else {
    out += pad + write_flow(node) + "\n";
  }
}

}  // namespace

std::string Place::text() const { return line > 0 ? fmt::format("{}:{}:{}", origin, line, column) : origin; }
std::string Place::line_text() const { return line > 0 ? fmt::format("{}:{}", origin, line) : origin; }

const Node* Node::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}
Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node& Node::put(const std::string& key, Node value) {
  kind = Kind::map;
  const Place from = value.place;
  if (Node* old = find(key)) {
    *old = std::move(value);
    return *old;
  }
  entries.push_back({key, from, std::move(value)});
  return entries.back().value;
}

void Node::remove(std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

std::string Node::describe() const {
  if (is_null()) return "nothing";
  if (is_scalar()) return fmt::format("{}'{}'", is_quoted ? "the string " : "", text);
  std::string flow = write_flow(*this);
  if (flow.size() > 60) flow = flow.substr(0, 57) + "...";
  return fmt::format("the {} {}", is_map() ? "map" : "list", flow);
}

Node scalar(std::string text) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  return node;
}

Node string_scalar(std::string text) {
  Node node = scalar(std::move(text));
  node.is_quoted = !is_plain(node.text);
  return node;
}

Node sequence(std::vector<Node> items) {
  Node node;
  node.kind = Node::Kind::sequence;
  node.items = std::move(items);
  return node;
}

Node map(std::vector<std::pair<std::string, Node>> entries) {
  Node node;
  node.kind = Node::Kind::map;
  for (auto& [key, value] : entries) node.put(key, std::move(value));
  return node;
}

std::string write_flow(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar:
      return scalar_text(node);
    case Node::Kind::sequence:
      for (const Node& item : node.items) out += (out.empty() ? "" : ", ") + write_flow(item);
      return "[" + out + "]";
    case Node::Kind::map:
      for (const Node::Entry& entry : node.entries)
        out += (out.empty() ? "" : ", ") + key_text(entry.key) + ": " + write_flow(entry.value);
      return "{" + out + "}";
  }
  return out;
}

std::string write_block(const Node& node, int indent) {
  std::string out;
  write_block_to(out, node, indent);
  return out;
}

}  // namespace muster::config
