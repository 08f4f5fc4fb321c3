// From text to a checked config: parse, include the model's file, put in the overrides, walk the table, validate.
#include "config/load.hpp"

#include "config/document.hpp"
#include "config/overrides.hpp"
#include "config/table.hpp"
#include "config/validate.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/config/config.hpp>

#include <filesystem>

namespace muster::config {
namespace {

/// Replaces {file: other.yaml} by the file's content; its nodes keep their own places.
void include_model(Node& root, const std::filesystem::path& folder, Problems& problems) {
  Node* model = root.find("model");
  const Node* file = model ? model->find("file") : nullptr;
  if (!file) return;
  if (!file->is_scalar() || file->text.empty())
    return problems.add(file->place, "model.file", fmt::format("expected a file name, found {}", file->describe()));
  for (const Node::Entry& entry : model->entries)
    if (entry.key != "file")
      problems.add(entry.place, "model." + entry.key, "excludes model.file: write it into " + file->text);
  const std::filesystem::path path = file->place.line > 0 ? folder / file->text : std::filesystem::path(file->text);
  std::string text;
  try {
    text = read_file(path, static_cast<int>(ExitCode::usage));
  } catch (const Error& error) {
    return problems.add(file->place, "model.file", error.what());
  }
  Node included = parse_document(text, path.string(), problems);
  if (Node* inner = included.find("model"); inner && included.entries.size() == 1) included = Node(*inner);
  if (included.find("file")) {
    problems.add(included.find("file")->place, "model.file", "a model file cannot name another one");
    included.remove("file");
  }
  if (included.is_null()) included.place = {path.string(), 1, 1};
  *model = std::move(included);
}

void flatten(const Node& node, const std::string& path, std::vector<std::pair<std::string, std::string>>& out) {
  if (node.is_map())
    for (const Node::Entry& entry : node.entries) flatten(entry.value, join_path(path, entry.key), out);
  else out.emplace_back(path, write_flow(node));
}

/// Where the value at `path` was given: there, or at the nearest path above it.
std::string origin_of(std::string path, const Reading& reading) {
  for (;;) {
    if (const auto found = reading.places.find(path); found != reading.places.end()) return found->second.line_text();
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos) return "follows from other keys";
    path.resize(dot);
  }
}

std::vector<std::string> describe_changes(const Config& config, const Reading& reading) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& path, const std::string& value) {
    const std::string shown = value.size() > 60 ? value.substr(0, 57) + "..." : value;
    lines.push_back(fmt::format("{:<32} {:<24} ({})", path, shown, origin_of(path, reading)));
  };
  for (const ConfigKey& key : table()) {
    const auto value = key.get(config);
    if (!value) continue;
    if (key.facts.path == "model.layers") {
      add(key.facts.path, fmt::format("{} layers", value->items.size()));
      continue;
    }
    std::vector<std::pair<std::string, std::string>> now, before;
    flatten(*value, key.facts.path, now);
    if (const auto normal = key.get_default(config)) flatten(*normal, key.facts.path, before);
    const auto standard = key.get(Config{});
    if (!key.facts.groups.empty() && standard && value->is_map() && write_flow(*value) != write_flow(*standard) &&
        now.size() == before.size() && now == before)
      add(key.facts.path, value->entries.front().key);  // another kind with its defaults
    for (const auto& line : now)
      if (std::find(before.begin(), before.end(), line) == before.end()) add(line.first, line.second);
  }
  return lines;
}

}  // namespace

Loaded read_tree(Node root, const std::string& name, const std::filesystem::path& folder, const Overrides& overrides,
                 Reading& reading, const std::vector<Override>& last) {
  std::vector<Override> given;
  if (overrides.reads_environment) given = overrides_from_environment(reading.problems);
  for (Override& one : overrides_from_sets(overrides.sets, reading.problems)) given.push_back(std::move(one));
  given.insert(given.end(), last.begin(), last.end());
  for (const Override& one : given)
    if (one.path == "model.file") apply_override(root, one, reading.problems);
  include_model(root, folder, reading.problems);
  for (const Override& one : given)
    if (one.path != "model.file") apply_override(root, one, reading.problems);

  Loaded loaded;
  read_map(root, table(), loaded.config, "", reading, hint_for);
  validate(loaded.config, {name, 1, 1}, reading);
  reading.problems.throw_if_any();
  derive(loaded.config);
  loaded.effective_yaml = write_block(write_keys(table(), loaded.config));
  loaded.table = describe_changes(loaded.config, reading);
  return loaded;
}

Node read_root(const std::string& text, const std::string& name, Reading& reading) {
  Node root = parse_document(text, name, reading.problems);
  if (root.is_null() && !reading.problems.empty()) reading.problems.throw_if_any();  // syntax: nothing more can be said
  if (root.is_null() || root.place.line == 0) root.place = {name, 1, 1};
  if (root.is_null()) root.kind = Node::Kind::map;
  return root;
}

std::string read_config_file(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail(ExitCode::usage, "{}: expected a config file, found a folder", file);
  return read_file(file, static_cast<int>(ExitCode::usage));
}

Loaded load(const std::string& file, const Overrides& overrides) {
  Reading reading;
  Node root = read_root(read_config_file(file), file, reading);
  return read_tree(std::move(root), file, std::filesystem::path(file).parent_path(), overrides, reading);
}

Loaded load_text(const std::string& text, const std::string& name, const Overrides& overrides) {
  Reading reading;
  Node root = read_root(text, name, reading);
  return read_tree(std::move(root), name, ".", overrides, reading);
}

}  // namespace muster::config
