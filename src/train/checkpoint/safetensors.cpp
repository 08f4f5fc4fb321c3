// The safetensors format: https://github.com/huggingface/safetensors (format section of its README).
#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/train/checkpoint.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <unistd.h>

namespace muster::train {
namespace {

constexpr std::size_t alignment = 8;

/// Writes everything or throws; the file is removed by whoever owns the folder.
void write_all(int descriptor, const void* data, std::size_t bytes, const std::filesystem::path& path) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      ::close(descriptor);
      fail(ExitCode::checkpoint, "cannot write {}: {}", path.string(), std::strerror(reason));
    }
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  nlohmann::ordered_json header;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : by_name) {
    const std::size_t bytes = tensor->values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor->shape.extents()}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = by_name.empty() ? "{}" : header.dump();
  text.append((alignment - text.size() % alignment) % alignment, ' ');

  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(ExitCode::checkpoint, "cannot create {}: {}", path.string(), std::strerror(errno));
  const std::uint64_t length = text.size();
  write_all(descriptor, &length, sizeof(length), path);
  write_all(descriptor, text.data(), text.size(), path);
  for (const auto& [name, tensor] : by_name) write_all(descriptor, tensor->values.data(), tensor->values.size() * sizeof(float), path);
  if (::close(descriptor) != 0) fail(ExitCode::checkpoint, "cannot write {}: {}", path.string(), std::strerror(errno));
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  const std::string content = read_file(path, static_cast<int>(ExitCode::checkpoint));
  std::uint64_t length = 0;
  if (content.size() >= sizeof(length)) std::memcpy(&length, content.data(), sizeof(length));
  if (content.size() < sizeof(length) || length > content.size() - sizeof(length))
    fail(ExitCode::checkpoint, "{}: truncated: {} bytes, its header alone needs {}", path.string(), content.size(), length + sizeof(length));
  std::vector<NamedTensor> tensors;
  try {
    const auto header = nlohmann::json::parse(content.substr(sizeof(length), length));
    const char* data = content.data() + sizeof(length) + length;
    const std::size_t data_bytes = content.size() - sizeof(length) - length;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto begin = entry.at("data_offsets").at(0).get<std::size_t>(), end = entry.at("data_offsets").at(1).get<std::size_t>();
      NamedTensor tensor{name, Shape(entry.at("shape").get<std::vector<std::int64_t>>()), {}};
      const auto bytes = static_cast<std::size_t>(tensor.shape.elements()) * sizeof(float);
      if (entry.at("dtype") != "F32" || begin > end || end > data_bytes || end - begin != bytes)
        fail(ExitCode::checkpoint, "{}: entry '{}' does not fit the file", path.string(), name);
      tensor.values.resize(bytes / sizeof(float));
      std::memcpy(tensor.values.data(), data + begin, bytes);
      tensors.push_back(std::move(tensor));
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint, "{}: its header is no valid JSON: {}", path.string(), error.what());
  }
  return tensors;
}

}  // namespace muster::train
