#include <muster/train/metrics.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace muster::train {
namespace {

/// The lines up to the resumed step. A line that was cut off by a crash is dropped too.
std::string lines_up_to(const std::string& text, std::int64_t step) {
  std::string kept;
  for (const std::string& line : split(text, '\n')) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.contains("step") || object["step"].get<std::int64_t>() > step) continue;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::int64_t resume_step) {
  constexpr int code = static_cast<int>(ExitCode::checkpoint);
  if (resume_step >= 0 && std::filesystem::exists(path)) write_file_atomic(path, lines_up_to(read_file(path, code), resume_step), code);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(ExitCode::checkpoint, "cannot open {}: {}", path.string(), std::strerror(errno));
}

MetricsWriter::~MetricsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsWriter::write(const MetricsLine& line) {
  if (descriptor_ < 0) return;
  nlohmann::ordered_json object;
  for (const auto& [key, value] : line) {
    if (const auto* number = std::get_if<double>(&value); number && !std::isfinite(*number)) object[key] = nullptr;
    else std::visit([&, name = key](const auto& v) { object[name] = v; }, value);
  }
  const std::string text = object.dump() + "\n";
  if (::write(descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(ExitCode::checkpoint, "cannot append to metrics.jsonl: {}", std::strerror(errno));
}

}  // namespace muster::train
