#include <muster/base/check.hpp>
#include <muster/base/error.hpp>

#include <new>

#include <atomic>
#include <mutex>

namespace muster {
namespace {

struct Context {
  std::mutex mutex;
  std::string where;
  std::atomic<long> step{-1};
};

Context& context() {
  static Context instance;
  return instance;
}

std::string location_text(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (const auto at = file.rfind("src/"); at != std::string_view::npos) file.remove_prefix(at);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace

void set_error_context(int rank, int size, std::string host) {
  const std::lock_guard lock(context().mutex);
  context().where = fmt::format("rank {} of {} on {}", rank, size, host);
}

void set_error_step(long step) { context().step = step; }

std::string error_context() {
  const std::lock_guard lock(context().mutex);
  const long step = context().step;
  if (context().where.empty() || step < 0) return context().where;
  return fmt::format("{}, step {}", context().where, step);
}

void fail_library(ExitCode code, std::string_view library, std::string_view expression, long status,
                  std::string_view library_message, std::source_location where) {
  const std::string context_text = error_context();
  throw Error(code, fmt::format("{}: {} failed with status {} ({}) at {}{}{}", library, expression, status,
                                library_message, location_text(where), context_text.empty() ? "" : ", ", context_text));
}

void fail_check(std::string_view expression, const std::string& operands, std::source_location where) {
  throw Error(ExitCode::internal, fmt::format("broken invariant {} ({}) at {} in {}", expression, operands,
                                              location_text(where), where.function_name()));
}

Failure current_failure() {
  constexpr const char* no_memory = "out of host memory; use a smaller data.batch or network, or more ranks";
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::device, no_memory};
  } catch (const std::length_error&) {
    return {ExitCode::device, no_memory};
  } catch (const std::exception& error) {
    return {ExitCode::internal, error.what()};
  } catch (...) {
    return {ExitCode::internal, "an exception of unknown type"};
  }
}

}  // namespace muster
