// Helpers of the config tests: a small valid config, and the lines a bad one is refused with.
#pragma once

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/config/config.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::config::testing {

using Lines = std::vector<std::string>;

inline const std::string minimal =
    "run: {epochs: 2}\n"
    "data:\n"
    "  train: a.h5\n"
    "  batch: 8\n"
    "model:\n"
    "  input: [1, 6, 6]\n"
    "  layers:\n"
    "    - flatten\n"
    "    - dense: {units: 10}\n";

inline Loaded load_quietly(const std::string& text, Lines sets = {}) {
  return load_text(text, "c.yaml", {std::move(sets), false});
}

/// The lines of the refusal; empty when the config was taken.
inline Lines problems_of(const std::string& text, Lines sets = {}, bool reads_environment = false) {
  try {
    load_text(text, "c.yaml", {std::move(sets), reads_environment});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return split(error.what(), '\n');
  }
  return {};
}

/// The minimal config with one text replaced.
inline std::string with(const std::string& old_text, const std::string& new_text) {
  std::string text = minimal;
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return text.replace(at, old_text.size(), new_text);
}

/// The minimal config with these layers (YAML, four spaces deep) in place of its own.
inline std::string with_layers(const std::string& layers) {
  return with("    - flatten\n    - dense: {units: 10}\n", layers);
}

inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("MUSTER_SOURCE");
  return folder ? folder : ".";
}

}  // namespace muster::config::testing
