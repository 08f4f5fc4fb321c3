// One function per foreign format; each reads its files, checks them, and writes through a ConvertWriter.
#pragma once

#include <muster/dataset/convert.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace muster::dataset {

std::string convert_idx(const ConvertOptions& options);
std::string convert_cifar(const ConvertOptions& options);
std::string convert_csv(const ConvertOptions& options);
std::string convert_npy(const ConvertOptions& options);
std::string convert_raw(const ConvertOptions& options);
std::string convert_text(const ConvertOptions& options);

/// A whole file, decompressed where it is gzip (by content, not by name). Throws Error(data).
std::vector<std::byte> read_bytes(const std::string& path);
/// Throws Error(usage) unless exactly one file of inputs and one of targets was given.
void expect_file_pair(const ConvertOptions& options);

}  // namespace muster::dataset
