#include <muster/train/checkpoint.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/store.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace muster::train {
namespace {

namespace fs = std::filesystem;
constexpr int format_version = 1;
const char* const data_files[] = {"weights.safetensors", "state.h5"};

fs::path folder_of(const fs::path& run) { return run / "checkpoints"; }

void write_state(const fs::path& path, const CheckpointState& state) {
  dataset::StoreWriter store(path);
  const std::int64_t counters[] = {state.step, state.sample_counter, state.epoch, state.audit[0], state.audit[1], state.audit[2]};
  store.put("counters", std::span<const std::int64_t>(counters));
  store.put("config", state.config_yaml);
  for (const NamedTensor& tensor : state.optimizer) {
    store.put("optimizer/" + tensor.name + "/values", std::span<const float>(tensor.values));
    store.put("optimizer/" + tensor.name + "/shape", std::span<const std::int64_t>(tensor.shape.extents()));
  }
  std::vector<std::string> names;
  for (const NamedTensor& tensor : state.optimizer) names.push_back(tensor.name);
  store.put("optimizer_names", join(names, "\n"));
  store.close();
}

void read_state(const fs::path& path, CheckpointState& state) {
  const dataset::StoreReader store(path);
  const auto counters = store.integers("counters");
  if (counters.size() != 6) fail(ExitCode::checkpoint, "{}: expected 6 counters, found {}", path.string(), counters.size());
  state.step = counters[0];
  state.sample_counter = counters[1];
  state.epoch = counters[2];
  std::copy(counters.begin() + 3, counters.end(), state.audit.begin());
  state.config_yaml = store.text("config");
  const std::string names = store.text("optimizer_names");
  if (names.empty()) return;
  for (const std::string& name : split(names, '\n'))
    state.optimizer.push_back({name, Shape(store.integers("optimizer/" + name + "/shape")), store.floats("optimizer/" + name + "/values")});
}

void write_manifest(const fs::path& folder, const CheckpointState& state) {
  nlohmann::ordered_json manifest{{"format", format_version}, {"step", state.step}, {"epoch", state.epoch}, {"samples", state.sample_counter}};
  for (const char* name : data_files)
    manifest["files"][name] = {{"bytes", fs::file_size(folder / name)}, {"xxh3", hash_file(folder / name)}};
  const std::string text = manifest.dump(2) + "\n";
  std::ofstream file(folder / "manifest.json", std::ios::binary);
  file << text << std::flush;
  if (!file) fail(ExitCode::checkpoint, "cannot write {}: disk full?", (folder / "manifest.json").string());
}

void verify(const fs::path& folder) {
  try {
    const auto manifest = nlohmann::json::parse(read_file(folder / "manifest.json", static_cast<int>(ExitCode::checkpoint)));
    if (manifest.at("format") != format_version)
      fail(ExitCode::checkpoint, "{}: format {}, this muster reads {}", folder.string(), manifest.at("format").dump(), format_version);
    for (const char* name : data_files) {
      const fs::path path = folder / name;
      if (!fs::exists(path)) fail(ExitCode::checkpoint, "{}: missing", path.string());
      const auto& entry = manifest.at("files").at(name);
      if (const auto bytes = entry.at("bytes").get<std::uintmax_t>(); fs::file_size(path) != bytes)
        fail(ExitCode::checkpoint, "{}: {} bytes, the manifest says {}: truncated", path.string(), fs::file_size(path), bytes);
      if (const std::string hash = hash_file(path); hash != entry.at("xxh3").get<std::string>())
        fail(ExitCode::checkpoint, "{}: its hash is {}, the manifest says {}: damaged", path.string(), hash, entry.at("xxh3").get<std::string>());
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint, "{}: not a valid manifest: {}", (folder / "manifest.json").string(), error.what());
  }
}

void prune(const fs::path& run, int keep) {
  auto folders = list_checkpoints(run);
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
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

fs::path save_checkpoint(const fs::path& run, const CheckpointState& state, int keep) {
  const std::string name = fmt::format("step-{:08}", state.step);
  const fs::path final_folder = folder_of(run) / name, temporary = folder_of(run) / (".tmp-" + name);
  try {
    fs::create_directories(folder_of(run));
    fs::remove_all(temporary);
    fs::create_directory(temporary);
    write_safetensors(temporary / data_files[0], state.weights);
    write_state(temporary / data_files[1], state);
    for (const char* file : data_files) fsync_file(temporary / file);
    write_manifest(temporary, state);
    fsync_file(temporary / "manifest.json");
    fsync_folder(temporary);
    fs::remove_all(final_folder);  // the same step once more, after a resume
    fs::rename(temporary, final_folder);
    fsync_folder(folder_of(run));
    prune(run, std::max(keep, 1));
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    fail(ExitCode::checkpoint, "checkpoint of step {} not written, older ones are untouched: {}; free disk space or set run.directory to another disk",
         state.step, error.what());
  }
  return final_folder;
}

CheckpointState load_checkpoint(const fs::path& folder) {
  verify(folder);
  CheckpointState state;
  state.weights = read_safetensors(folder / data_files[0]);
  read_state(folder / data_files[1], state);
  return state;
}

CheckpointState load_newest_checkpoint(const fs::path& run) {
  auto folders = list_checkpoints(run);
  if (folders.empty()) fail(ExitCode::checkpoint, "{}: no checkpoint found; start without --resume", folder_of(run).string());
  std::vector<std::string> reasons;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      CheckpointState state = load_checkpoint(*folder);
      if (!reasons.empty()) log::warn("going back to {}", folder->string());
      return state;
    } catch (const Error& error) {
      log::warn("damaged checkpoint passed over: {}", error.what());
      reasons.push_back(error.what());
    }
  }
  fail(ExitCode::checkpoint, "{}: none of {} checkpoints is good: {}", folder_of(run).string(), folders.size(), join(reasons, "; "));
}

}  // namespace muster::train
