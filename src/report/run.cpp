#include <muster/report/run.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <charconv>
#include <set>

namespace muster::report {
namespace {

/// "0:12 1:7": versions behind, updates.
void add_histogram(const std::string& text, std::map<std::int64_t, std::int64_t>& into) {
  for (const std::string& part : split(text, ' ')) {
    const auto colon = part.find(':');
    std::int64_t value = 0, count = 0;
    if (colon == std::string::npos) continue;
    const bool is_number = std::from_chars(part.data(), part.data() + colon, value).ec == std::errc() &&
                           std::from_chars(part.data() + colon + 1, part.data() + part.size(), count).ec == std::errc();
    if (is_number) into[value] += count;
  }
}

void add_line(const nlohmann::json& line, Run& run) {
  const double step = line.at("step").get<double>();
  const std::string prefix = line.contains("split") ? line.at("split").get<std::string>() + "." : "";
  for (const auto& [key, value] : line.items()) {
    if (key == "staleness_histogram" && value.is_string()) add_histogram(value.get<std::string>(), run.staleness);
    if (value.is_number()) run.columns[prefix + key].push_back({step, value.get<double>()});
  }
}

void load_metrics(const std::filesystem::path& path, Run& run) {
  const std::vector<std::string> lines = split(read_file(path), '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto object = nlohmann::json::parse(lines[i], nullptr, false);
    if (object.is_object() && object.contains("step") && object.at("step").is_number()) add_line(object, run);
    else if (i + 1 < lines.size())
      fail(ExitCode::data, "{}:{}: expected a JSON object with \"step\", found '{}'", path.string(), i + 1,
           lines[i].substr(0, 40));
  }
}

std::size_t indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

}  // namespace

std::map<std::string, std::string> flatten_settings(const std::string& yaml) {
  std::map<std::string, std::string> settings;
  std::vector<std::string> path;
  std::size_t list_at = std::string::npos;  // indentation of the list whose lines are being gathered
  for (const std::string& line : split(yaml, '\n')) {
    const std::size_t at = indentation(line);
    if (at == line.size()) continue;
    if (list_at != std::string::npos && (at > list_at || (at == list_at && line[at] == '-'))) {
      settings[join(path, ".")].append(1, '\n').append(line, list_at);
      continue;
    }
    list_at = std::string::npos;
    if (line[at] == '-') {
      list_at = at;
      settings[join(path, ".")] = line.substr(at);
      continue;
    }
    path.resize(std::min(path.size(), at / 2));
    const auto colon = line.find(':');
    path.push_back(line.substr(at, colon - at));
    if (colon != std::string::npos && colon + 2 < line.size()) settings[join(path, ".")] = line.substr(colon + 2);
  }
  return settings;
}

Run load_run(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / "metrics.jsonl"))
    fail(ExitCode::usage, "{}: no metrics.jsonl there; expected the directory of a run", directory.string());
  Run run;
  run.name = directory.string();
  load_metrics(directory / "metrics.jsonl", run);
  if (std::filesystem::exists(directory / "config.yaml"))
    run.settings = flatten_settings(read_file(directory / "config.yaml"));
  return run;
}

const std::vector<Point>& Run::column(const std::string& key) const {
  static const std::vector<Point> none;
  const auto found = columns.find(key);
  return found == columns.end() ? none : found->second;
}

std::vector<std::string> differing_settings(const std::vector<Run>& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, std::size_t> holders;
  for (const Run& run : runs)
    for (const auto& [path, value] : run.settings) {
      values[path].insert(value);
      ++holders[path];
    }
  std::vector<std::string> differing;
  for (const auto& [path, found] : values)
    if (found.size() > 1 || holders[path] < runs.size()) differing.push_back(path);
  return differing;
}

}  // namespace muster::report
