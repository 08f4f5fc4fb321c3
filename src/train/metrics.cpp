// Appending needs no lock and no flush: a line is one write to a file opened for appending, so a crash can cut off the
// last line at most, and a reader sees whole lines.
#include <muster/train/metrics.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace muster::train {
namespace {

/// The lines up to the resumed step. A line that was cut off by a crash is dropped too.
std::string lines_up_to(const std::string& text, std::int64_t step, bool& has_evaluation) {
  std::string kept;
  for (const std::string& line : split(text, '\n')) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    const auto found = object.find("step");
    if (found == object.end() || !found->is_number_integer() || found->get<std::int64_t>() > step) continue;
    has_evaluation |= object.contains("split") && found->get<std::int64_t>() == step;
    kept += line + "\n";
  }
  return kept;
}

void put(nlohmann::ordered_json& object, const std::string& key,
         const std::variant<std::int64_t, double, std::string>& value) {
  const auto* number = std::get_if<double>(&value);
  if (!number || std::isfinite(*number)) {
    std::visit([&](const auto& v) { object[key] = v; }, value);
    return;
  }
  object[key] = nullptr;  // JSON has no such number
  object[key + "_text"] = std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf";
}

/// Every number of a line but its step; samples and epoch are the same as the step, in other units.
Scalars scalars_of(const MetricsLine& line, std::int64_t& step) {
  Scalars scalars;
  std::string group = "train/";
  for (const auto& [key, value] : line) {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (key == "step" && whole != nullptr) step = *whole;
    else if (key == "split") group = std::get<std::string>(value) + "/";
    else if (const auto* number = std::get_if<double>(&value)) scalars.emplace_back(key, *number);
    else if (whole != nullptr && key != "samples") scalars.emplace_back(key, static_cast<double>(*whole));
  }
  for (auto& [tag, number] : scalars) tag.insert(0, group);
  return scalars;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::int64_t resume_step, bool writes_events) {
  constexpr int code = static_cast<int>(ExitCode::checkpoint);
  if (resume_step >= 0 && std::filesystem::exists(path))
    write_file_atomic(path, lines_up_to(read_file(path, code), resume_step, has_evaluation_), code);
  name_ = path.string();
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(ExitCode::checkpoint, "cannot open {}: {}", path.string(), std::strerror(errno));
  if (writes_events) events_ = EventWriter(path.parent_path(), resume_step);
}

MetricsWriter::~MetricsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsWriter::write(const MetricsLine& line) {
  if (descriptor_ < 0) return;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : line) put(object, key, value);
  const std::string text = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(text.size()))
    fail(ExitCode::checkpoint, "cannot append to {}: {}; free disk space", name_,
         written < 0 ? std::strerror(errno) : "the disk is full");
  std::int64_t step = 0;
  const Scalars scalars = scalars_of(line, step);
  events_.write(step, scalars);
}

}  // namespace muster::train
