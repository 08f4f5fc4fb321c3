#include <muster/train/run_directory.hpp>

#include <muster/base/error.hpp>

#include <algorithm>
#include <vector>

namespace muster::train {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// "<prefix>NUMBER<suffix>"
bool has_form(const std::string& name, const std::string& prefix, const std::string& suffix) {
  if (name.size() < prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  return is_number(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

bool is_checkpoint(const std::string& name) {
  return has_form(name, "step-", "") || has_form(name, ".tmp-step-", "") || has_form(name, ".old-step-", "");
}

/// events.out.tfevents.SECONDS.muster.NUMBER; another program's event files are not ours to remove.
bool is_event_file(const std::string& name) {
  const std::size_t last = name.rfind('.');
  return last != std::string::npos && is_number(name.substr(last + 1)) &&
         has_form(name.substr(0, last), "events.out.tfevents.", ".muster");
}

bool is_crash_file(const std::string& name) {
  return has_form(name, "rank-", ".json") || has_form(name, "rank-", ".json.tmp");
}

void find_in(const fs::path& folder, bool (*is_own)(const std::string&), std::vector<fs::path>& found) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_own(entry.path().filename().string())) found.push_back(entry.path());
}

/// What muster has made in a directory, apart from the folders that hold it.
std::vector<fs::path> own_entries(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const char* name : {"config.yaml", "log.txt", "metrics.jsonl", "record.jsonl", "config.yaml.tmp",
                           "metrics.jsonl.tmp", "record.jsonl.tmp"})
    if (fs::exists(fs::symlink_status(directory / name))) found.push_back(directory / name);
  find_in(directory, is_event_file, found);
  find_in(directory / "checkpoints", is_checkpoint, found);
  find_in(directory / "errors", is_crash_file, found);
  return found;
}

void clear(const fs::path& directory, const std::vector<fs::path>& entries) {
  for (const fs::path& entry : entries) fs::remove_all(entry);
  std::error_code not_empty;  // then something of the user's is in it
  for (const char* name : {"checkpoints", "errors"})
    if (fs::is_directory(fs::symlink_status(directory / name))) fs::remove(directory / name, not_empty);
}

/// One process at a time trains in a directory; where the file system has no locks, that is the user's affair.
FileLock lock(const fs::path& directory) {
  FileLock lock(directory);
  if (lock.state() == FileLock::State::busy)
    fail(ExitCode::usage, "another muster is training in {}; wait for it, end it, or set another run.name",
         directory.string());
  return lock;
}

void make_way(const fs::path& directory, bool is_forced) {
  const auto entries = own_entries(directory);
  if (!entries.empty() && !is_forced)
    fail(ExitCode::usage, "{} holds a run already; continue it with --resume, replace it with --force, or set run.name",
         directory.string());
  if (!entries.empty()) clear(directory, entries);
}

}  // namespace

OpenRun open_run_directory(const fs::path& directory, bool is_resumed, bool is_forced) {
  if (is_resumed && is_forced) fail(ExitCode::usage, "--resume and --force exclude each other");
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory, error))
    fail(ExitCode::usage, "run.directory: {} is a file; expected a folder or a free name", directory.string());
  if (is_resumed) {
    if (!fs::is_directory(directory, error))
      fail(ExitCode::usage, "--resume: there is no run in {}; start without --resume", directory.string());
    return {RunStart::resumed, lock(directory)};
  }
  try {
    if (directory.has_parent_path()) fs::create_directories(directory.parent_path());
    const bool is_new = fs::create_directory(directory);
    OpenRun run{RunStart::fresh, lock(directory)};
    if (!is_new) make_way(directory, is_forced);
    return run;
  } catch (const fs::filesystem_error& failure) {
    fail(ExitCode::checkpoint,
         "cannot prepare the run directory {}: {}; set run.directory to a place where you may write",
         directory.string(), failure.code().message());
  }
}

}  // namespace muster::train
