// The converters of idx, CIFAR, CSV, npy and raw files: each checks sizes against what the format promises, then hands
// samples to the writer.
#include "dataset/convert/formats.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <zlib.h>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace muster::dataset {

std::vector<std::byte> read_bytes(const std::string& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");  // reads plain files too
  if (!file) fail(ExitCode::data, "{}: cannot open: {}", path, std::strerror(errno));
  std::vector<std::byte> content;
  constexpr unsigned block = 1u << 20;
  for (;;) {
    const std::size_t at = content.size();
    content.resize(at + block);
    const int got = gzread(file, content.data() + at, block);
    if (got < 0) {
      int code = 0;
      const std::string reason = gzerror(file, &code);
      gzclose(file);
      fail(ExitCode::data, "{}: cannot be read: {}", path, code == Z_ERRNO ? std::strerror(errno) : reason);
    }
    content.resize(at + static_cast<std::size_t>(got));
    if (got == 0) break;
  }
  if (gzclose(file) != Z_OK) fail(ExitCode::data, "{}: the compressed data end too early: truncated", path);
  return content;
}

std::int64_t elements_of(const std::string& path, const Shape& shape) {
  try {
    return shape.elements();
  } catch (const Error& error) {
    fail(ExitCode::data, "{}: damaged, or of another format: {}", path, error.what());
  }
}

void expect_file_pair(const ConvertOptions& options) {
  if (options.inputs.size() == 1 && options.targets.size() == 1) return;
  fail(ExitCode::usage, "convert {}: expected one --input file and one --target file, found {} and {}", options.format,
       options.inputs.size(), options.targets.size());
}

namespace {

void check_output(const ConvertOptions& options) {
  if (options.deflate < 0 || options.deflate > 9)
    fail(ExitCode::usage, "convert: --deflate: expected 0 (contiguous) to 9, found {}", options.deflate);
  std::error_code ignored;
  const auto status = std::filesystem::status(options.output, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ExitCode::usage, "convert: --output: expected a file or a free name, found {} {}",
         std::filesystem::is_directory(status) ? "the folder" : "the device or pipe", options.output);
}

}  // namespace

std::string convert(const ConvertOptions& options) {
  check_output(options);
  struct Format {
    const char* name;
    std::string (*run)(const ConvertOptions&);
  };
  static constexpr Format formats[] = {{"idx", convert_idx},  {"cifar10", convert_cifar}, {"cifar100", convert_cifar},
                                       {"csv", convert_csv},  {"npy", convert_npy},       {"raw", convert_raw},
                                       {"text", convert_text}};
  std::vector<std::string> names;
  for (const Format& format : formats) {
    if (options.format == format.name) return format.run(options);
    names.push_back(format.name);
  }
  fail(ExitCode::usage, "convert: unknown format '{}', expected one of {}{}", options.format, join(names, ", "),
       did_you_mean(options.format, names));
}

}  // namespace muster::dataset
