// Token files: one long row of ids per split, and the vocabulary that made them.
#pragma once

#include <muster/dataset/dataset.hpp>

#include <span>
#include <string>

namespace muster::dataset::hdf5 {

/// Windows of source.window ids as samples, the ids one further on as labels. No window reaches from one file into the
/// next. section: "data.train", for messages.
std::unique_ptr<Dataset> open_tokens(const SourceOptions& source, const std::string& section);

/// Text of the dataset "vocabulary"; Error(data) where it is missing.
std::string read_vocabulary(const std::string& path);

/// Writes "train/tokens", "test/tokens" (unless empty) and "vocabulary" in the smallest of uint8, uint16 and int32.
/// The file is complete or absent. Throws Error(usage) where it exists and is_forced is false.
void write_tokens(const std::string& path, std::span<const std::int32_t> train, std::span<const std::int32_t> test,
                  const std::string& vocabulary, std::int64_t vocabulary_size, bool is_forced);

}  // namespace muster::dataset::hdf5
