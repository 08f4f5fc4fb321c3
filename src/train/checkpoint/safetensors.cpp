// The safetensors format: 8 bytes with the length of a JSON header (little-endian), the header (name -> dtype, shape,
// data_offsets counted from its end), the data without holes. https://github.com/huggingface/safetensors, section
// Format. Reading trusts nothing: every length and shape is checked against the file before memory is taken.
#include <muster/base/check.hpp>
#include <muster/base/error.hpp>
#include <muster/base/handle.hpp>
#include <muster/train/checkpoint.hpp>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

namespace muster::train {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t alignment = 64;                // of the data, so that a mapped file can be used as it is
constexpr std::uint64_t header_limit = 100'000'000;  // the format's own

struct DescriptorTraits {
  using type = int;
  static constexpr type empty() { return -1; }
  static void release(type descriptor) noexcept { ::close(descriptor); }
};
using Descriptor = UniqueHandle<DescriptorTraits>;

void write_all(const Descriptor& file, const void* data, std::size_t bytes, const fs::path& path) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file.get(), at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(ExitCode::checkpoint, "cannot write {}: {}", path.string(), std::strerror(errno));
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void read_all(const Descriptor& file, void* data, std::size_t bytes, const fs::path& path) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(file.get(), at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ExitCode::checkpoint, "cannot read {}: {}", path.string(), std::strerror(errno));
    if (got == 0) fail(ExitCode::checkpoint, "{}: truncated: {} bytes are missing", path.string(), bytes);
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

/// What the header says of one tensor.
struct Entry {
  std::string name;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Bytes of a shape, or nothing where an extent is negative or the product does not fit.
bool bytes_of(const Shape& shape, std::size_t& bytes) {
  bytes = sizeof(float);
  for (std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return false;
  return true;
}

/// The entries in the order of their data. Throws where they do not fill the file's data exactly.
std::vector<Entry> parse_header(const std::string& text, std::size_t data_bytes, const fs::path& path) {
  std::vector<Entry> entries;
  try {
    const auto header = nlohmann::json::parse(text);
    if (!header.is_object()) fail(ExitCode::checkpoint, "{}: its header is no JSON object", path.string());
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      if (const std::string dtype = entry.at("dtype").get<std::string>(); dtype != "F32")
        fail(ExitCode::checkpoint, "{}: '{}' has dtype {}, expected F32", path.string(), name, dtype);
      entries.push_back({name, Shape(entry.at("shape").get<std::vector<std::int64_t>>()),
                         entry.at("data_offsets").at(0).get<std::size_t>(),
                         entry.at("data_offsets").at(1).get<std::size_t>()});
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint, "{}: its header is damaged: {}", path.string(), error.what());
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::size_t offset = 0;
  for (const Entry& entry : entries) {
    std::size_t bytes = 0;
    if (!bytes_of(entry.shape, bytes) || entry.begin != offset || entry.end < entry.begin ||
        entry.end - entry.begin != bytes || entry.end > data_bytes)
      fail(ExitCode::checkpoint, "{}: '{}' of shape {} lies at bytes {} to {} of {}: damaged or truncated",
           path.string(), entry.name, entry.shape.text(), entry.begin, entry.end, data_bytes);
    offset = entry.end;
  }
  if (offset != data_bytes)
    fail(ExitCode::checkpoint, "{}: {} bytes of data, its header describes {}", path.string(), data_bytes, offset);
  return entries;
}

std::string header_of(const std::map<std::string, const NamedTensor*>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t bytes = tensor->values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor->shape.extents()}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  const std::size_t rest = (sizeof(std::uint64_t) + text.size()) % alignment;
  if (rest > 0) text.append(alignment - rest, ' ');
  return text;
}

}  // namespace

void write_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) {
    MUSTER_CHECK(by_name.emplace(tensor.name, &tensor).second, "two tensors are named '{}'", tensor.name);
    MUSTER_CHECK_EQ(tensor.values.size(), static_cast<std::size_t>(tensor.shape.elements()));
  }
  const std::string header = header_of(by_name);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) fail(ExitCode::checkpoint, "cannot create {}: {}", path.string(), std::strerror(errno));
  const std::uint64_t length = header.size();
  write_all(file, &length, sizeof(length), path);
  write_all(file, header.data(), header.size(), path);
  for (const auto& [name, tensor] : by_name)
    write_all(file, tensor->values.data(), tensor->values.size() * sizeof(float), path);
  if (::close(file.detach()) != 0)
    fail(ExitCode::checkpoint, "cannot write {}: {}", path.string(), std::strerror(errno));
}

std::vector<NamedTensor> read_safetensors(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail(ExitCode::checkpoint, "cannot read {}: {}", path.string(), std::strerror(errno));
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) fail(ExitCode::checkpoint, "cannot read {}: {}", path.string(), error.message());
  std::uint64_t length = 0;
  read_all(file, &length, sizeof(length), path);
  if (length > header_limit || length > size - sizeof(length))
    fail(ExitCode::checkpoint, "{}: {} bytes, its header alone would need {}: truncated, or no safetensors file",
         path.string(), size, length);
  std::string header(length, '\0');
  read_all(file, header.data(), length, path);
  std::vector<NamedTensor> tensors;
  for (Entry& entry : parse_header(header, size - sizeof(length) - length, path)) {
    tensors.push_back(
        {std::move(entry.name), std::move(entry.shape), std::vector<float>((entry.end - entry.begin) / sizeof(float))});
    read_all(file, tensors.back().values.data(), entry.end - entry.begin, path);
  }
  return tensors;
}

}  // namespace muster::train
