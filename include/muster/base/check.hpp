// Checks of our own invariants. A failed one is a defect of muster: it throws Error(ExitCode::internal) with the
// expression and both operands. Bad input is never reported through these.
#pragma once

#include <muster/base/error.hpp>

namespace muster {

[[noreturn]] void fail_check(std::string_view expression, const std::string& operands,
                             std::source_location where = std::source_location::current());

}  // namespace muster

/// MUSTER_CHECK(condition, "format", args...): always on, cheap conditions only.
#define MUSTER_CHECK(condition, ...)                                                \
  do {                                                                              \
    if (!(condition)) ::muster::fail_check(#condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

/// MUSTER_CHECK_EQ(a, b): prints both values.
#define MUSTER_CHECK_EQ(a, b)                                                                                       \
  do {                                                                                                              \
    const auto& muster_a = (a);                                                                                     \
    const auto& muster_b = (b);                                                                                     \
    if (!(muster_a == muster_b)) ::muster::fail_check(#a " == " #b, ::fmt::format("{} != {}", muster_a, muster_b)); \
  } while (false)
