// Files that are complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace muster {

/// Writes `content` to a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder.
/// Throws Error(code) that names the path and the system's reason.
void write_file_atomic(const std::filesystem::path& path, std::string_view content, int exit_code = 8);
/// The whole file. Throws Error(exit_code).
std::string read_file(const std::filesystem::path& path, int exit_code = 3);
void fsync_file(const std::filesystem::path& path);
void fsync_folder(const std::filesystem::path& path);
/// xxh3-64 of a file, as 16 hex digits.
std::string hash_file(const std::filesystem::path& path);

}  // namespace muster
