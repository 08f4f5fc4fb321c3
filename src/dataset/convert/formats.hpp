// One function per foreign format; each reads its files, checks them, and writes through a ConvertWriter.
#pragma once

#include <muster/dataset/convert.hpp>
#include <muster/tensor/shape.hpp>

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
/// The elements of a shape that a file promises. Throws Error(data) where they cannot be counted.
std::int64_t elements_of(const std::string& path, const Shape& shape);
/// Throws Error(usage) unless exactly one file of inputs and one of targets was given.
void expect_file_pair(const ConvertOptions& options);

}  // namespace muster::dataset
