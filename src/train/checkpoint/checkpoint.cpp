// Saving: write into .tmp-step-N, sync, rename, sync the parent, then remove what is no longer kept. Loading: the
// newest whose sizes and hashes are those of its manifest. One process writes a run at a time; names that begin with a
// dot are leftovers of a killed one and are swept by the next save.
#include <muster/train/checkpoint.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/store.hpp>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace muster::train {
namespace {

namespace fs = std::filesystem;
constexpr int format_version = 2;  // 2: sample_order, done_beyond
const char* const data_files[] = {"weights.safetensors", "state.h5"};

fs::path folder_of(const fs::path& run) { return run / "checkpoints"; }

/// The N of a folder "step-N", -1 for any other name.
std::int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::int64_t step = -1;
  if (!name.starts_with("step-")) return -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() ? step : -1;
}

void write_state(const fs::path& path, const CheckpointState& state) {
  dataset::StoreWriter store(path);
  const std::int64_t counters[] = {state.step,     state.sample_counter, state.epoch,
                                   state.audit[0], state.audit[1],       state.audit[2]};
  store.put("counters", std::span<const std::int64_t>(counters));
  store.put("sample_order", state.sample_order);
  if (state.interval[0] > 0) store.put("interval", std::span<const std::int64_t>(state.interval));
  if (!state.done_beyond.empty()) store.put("done_beyond", std::span<const std::int64_t>(state.done_beyond));
  for (const NamedTensor& tensor : state.optimizer) {
    store.put("optimizer/" + tensor.name + "/values", std::span<const float>(tensor.values));
    store.put("optimizer/" + tensor.name + "/shape", std::span<const std::int64_t>(tensor.shape.extents()));
  }
  std::vector<std::string> names;
  for (const NamedTensor& tensor : state.optimizer) names.push_back(tensor.name);
  store.put("optimizer_names", join(names, "\n"));
  store.close();
}

void read_state(const fs::path& path, CheckpointParts parts, CheckpointState& state) {
  const dataset::StoreReader store(path);
  const auto counters = store.integers("counters");
  if (counters.size() != 6)
    fail(ExitCode::checkpoint, "{}: expected 6 counters, found {}", path.string(), counters.size());
  state.step = counters[0];
  state.sample_counter = counters[1];
  state.epoch = counters[2];
  std::copy(counters.begin() + 3, counters.end(), state.audit.begin());
  state.sample_order = store.text("sample_order");
  if (store.has("done_beyond")) state.done_beyond = store.integers("done_beyond");
  if (store.has("interval")) {
    const auto interval = store.integers("interval");
    if (interval.size() != state.interval.size())
      fail(ExitCode::checkpoint, "{}: expected {} sums of the interval, found {}", path.string(), state.interval.size(),
           interval.size());
    std::ranges::copy(interval, state.interval.begin());
  }
  if (parts == CheckpointParts::weights) return;
  const std::string names = store.text("optimizer_names");
  if (names.empty()) return;
  for (const std::string& name : split(names, '\n'))
    state.optimizer.push_back(
        {name, Shape(store.integers("optimizer/" + name + "/shape")), store.floats("optimizer/" + name + "/values")});
}

void write_manifest(const fs::path& folder, const CheckpointState& state) {
  nlohmann::ordered_json manifest{
      {"format", format_version}, {"step", state.step}, {"epoch", state.epoch}, {"samples", state.sample_counter}};
  for (const char* name : data_files)
    manifest["files"][name] = {{"bytes", fs::file_size(folder / name)}, {"xxh3", hash_file(folder / name)}};
  write_file_atomic(folder / "manifest.json", manifest.dump(2) + "\n");
}

void verify_file(const fs::path& path, const nlohmann::json& entry) {
  std::error_code error;
  const std::uintmax_t found = fs::file_size(path, error);
  if (error) fail(ExitCode::checkpoint, "{}: {}", path.string(), error.message());
  if (const auto bytes = entry.at("bytes").get<std::uintmax_t>(); found != bytes)
    fail(ExitCode::checkpoint, "{}: {} bytes, the manifest says {}: {}", path.string(), found, bytes,
         found < bytes ? "truncated" : "damaged");
  if (const std::string hash = hash_file(path); hash != entry.at("xxh3").get<std::string>())
    fail(ExitCode::checkpoint, "{}: its hash is {}, the manifest says {}: damaged", path.string(), hash,
         entry.at("xxh3").get<std::string>());
}

/// Checks the files against the manifest and returns the counters it states: step, samples, epoch.
std::array<std::int64_t, 3> verify(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  try {
    const auto manifest = nlohmann::json::parse(read_file(path, static_cast<int>(ExitCode::checkpoint)));
    if (manifest.at("format") != format_version)
      fail(ExitCode::checkpoint, "{}: format {}, this muster reads {}", path.string(), manifest.at("format").dump(),
           format_version);
    for (const char* name : data_files) verify_file(folder / name, manifest.at("files").at(name));
    return {manifest.at("step").get<std::int64_t>(), manifest.at("samples").get<std::int64_t>(),
            manifest.at("epoch").get<std::int64_t>()};
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint, "{}: damaged: {}", path.string(), error.what());
  }
}

/// Puts `temporary` in the place of `final_folder`. An existing one (the same step once more, after a resume) leaves it
/// in the same instant where the file system can exchange names.
void publish(const fs::path& temporary, const fs::path& final_folder) {
  if (fs::exists(final_folder)) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_folder.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(temporary);
      return;
    }
    const fs::path old = final_folder.parent_path() / (".old-" + final_folder.filename().string());
    fs::rename(final_folder, old);
    fs::rename(temporary, final_folder);
    fs::remove_all(old);
    return;
  }
  fs::rename(temporary, final_folder);
}

/// Removes what a killed process left.
void sweep(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(folder_of(run))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".tmp-step-") || name.starts_with(".old-step-")) fs::remove_all(entry.path());
  }
}

/// A later step than the one just saved is what a resume has passed over as damaged (or a future given up): it does not
/// count.
void prune(const fs::path& run, std::int64_t saved_step, int keep) {
  auto folders = list_checkpoints(run);
  std::erase_if(folders, [&](const fs::path& folder) { return step_of(folder) > saved_step; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < folders.size(); ++i) {
    // Renamed first: a half-deleted checkpoint must not look like a damaged one.
    const fs::path doomed = folders[i].parent_path() / (".old-" + folders[i].filename().string());
    fs::rename(folders[i], doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> folders;
  if (!fs::is_directory(folder_of(run))) return folders;
  for (const auto& entry : fs::directory_iterator(folder_of(run)))
    if (entry.is_directory() && step_of(entry.path()) >= 0) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end(),
            [](const fs::path& a, const fs::path& b) { return step_of(a) < step_of(b); });
  return folders;
}

fs::path save_checkpoint(const fs::path& run, const CheckpointState& state, int keep) {
  const std::string name = fmt::format("step-{:08}", state.step);
  const fs::path final_folder = folder_of(run) / name, temporary = folder_of(run) / (".tmp-" + name);
  try {
    if (fs::create_directories(folder_of(run))) fsync_folder(run);
    sweep(run);
    fs::create_directory(temporary);
    write_safetensors(temporary / data_files[0], state.weights);
    write_state(temporary / data_files[1], state);
    for (const char* file : data_files) fsync_file(temporary / file);
    write_manifest(temporary, state);
    fsync_folder(temporary);
    publish(temporary, final_folder);
    fsync_folder(folder_of(run));
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    fail(ExitCode::checkpoint,
         "checkpoint of step {} not written, older ones are untouched: {}; free disk space or set run.directory to "
         "another disk",
         state.step, error.what());
  }
  try {
    prune(run, state.step, std::max(keep, 1));
  } catch (const std::exception& error) {
    log::warn("old checkpoints could not be removed: {}", error.what());
  }
  return final_folder;
}

CheckpointState load_checkpoint(const fs::path& folder, CheckpointParts parts) {
  const auto stated = verify(folder);
  CheckpointState state;
  state.weights = read_safetensors(folder / data_files[0]);
  read_state(folder / data_files[1], parts, state);
  if (stated != std::array{state.step, state.sample_counter, state.epoch})
    fail(ExitCode::checkpoint, "{}: damaged: its step, samples and epoch {} are not those of {}, [{}, {}, {}]",
         (folder / "manifest.json").string(), stated, data_files[1], state.step, state.sample_counter, state.epoch);
  return state;
}

CheckpointState load_newest_checkpoint(const fs::path& run, CheckpointParts parts) {
  auto folders = list_checkpoints(run);
  if (folders.empty())
    fail(ExitCode::checkpoint, "{}: no checkpoint found; start without --resume", folder_of(run).string());
  std::vector<std::string> reasons;  // each is told once: as a warning, or in the error
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      CheckpointState state = load_checkpoint(*folder, parts);
      for (const std::string& reason : reasons) log::warn("damaged checkpoint passed over: {}", reason);
      if (!reasons.empty()) log::warn("going back to {}", folder->string());
      return state;
    } catch (const std::exception& error) {
      reasons.push_back(error.what());
    }
  }
  fail(ExitCode::checkpoint, "{}: none of {} checkpoints is good: {}", folder_of(run).string(), folders.size(),
       join(reasons, "; "));
}

}  // namespace muster::train
