#include <muster/train/run_directory.hpp>

#include <muster/base/error.hpp>

namespace muster::train {

namespace fs = std::filesystem;

RunStart open_run_directory(const fs::path& directory, bool is_resumed, bool is_forced) {
  static const char* const own[] = {"config.yaml", "log.txt", "metrics.jsonl", "checkpoints", "errors"};
  if (is_resumed && is_forced) fail(ExitCode::usage, "--resume and --force exclude each other");
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory))
    fail(ExitCode::usage, "run.directory: {} is a file; expected a folder or a free name", directory.string());
  if (is_resumed) {
    if (!fs::is_directory(directory)) fail(ExitCode::usage, "--resume: there is no run in {}; start without --resume", directory.string());
    return RunStart::resumed;
  }
  fs::create_directories(directory.has_parent_path() ? directory.parent_path() : ".", error);
  if (fs::create_directory(directory, error)) return RunStart::fresh;
  if (error) fail(ExitCode::checkpoint, "cannot create the run directory {}: {}", directory.string(), error.message());
  bool has_run = false;
  for (const char* name : own) has_run = has_run || fs::exists(directory / name);
  if (has_run && !is_forced)
    fail(ExitCode::usage, "{} holds a run already; continue it with --resume, replace it with --force, or set run.name", directory.string());
  for (const char* name : own) fs::remove_all(directory / name);
  return RunStart::fresh;
}

}  // namespace muster::train
