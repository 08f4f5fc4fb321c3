// The `cuda` backend as the executable sees it: an entry of the registry that opens libmuster_cuda.so, beside the
// executable or in ../lib, the first time somebody asks. MUSTER_CUDA_PLUGIN names another file, for tests. The driver
// is looked for first, since opening the plugin with its libraries costs a third of a second.
#include <muster/device/plugin.hpp>

#include <muster/base/error.hpp>

#include <dlfcn.h>
#include <cstdlib>
#include <filesystem>

namespace muster::device {
namespace {

struct Found {
  std::string file;  ///< "" without a plugin
  bool is_named = false;
};

Found find_plugin() {
  if (const char* named = std::getenv("MUSTER_CUDA_PLUGIN")) return {named, true};
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& file : {folder / "libmuster_cuda.so", folder / "../lib/libmuster_cuda.so"})
    if (std::filesystem::exists(file, ignored)) return {file.string(), false};
  return {};
}

/// The plugin once it is open; else the reason why not.
struct Opened {
  PluginTable table;
  std::string reason;
};

Opened open_plugin() {
  const auto [file, is_named] = find_plugin();
  if (file.empty()) return {{}, "not part of this build (no libmuster_cuda.so beside the executable)"};
  if (!is_named && ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
    return {{}, "no NVIDIA driver (libcuda.so.1 cannot be loaded)"};
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its code may be on any stack
  if (library == nullptr) return {{}, ::dlerror()};
  auto* entry = reinterpret_cast<PluginEntry*>(::dlsym(library, "muster_backend_plugin"));
  if (entry == nullptr) return {{}, file + " is no plugin of muster"};
  Opened opened;
  entry(&opened.table);
  if (opened.table.version != plugin_version)
    opened.reason = fmt::format("{} has plugin version {}, this executable {}; build both from the same source", file,
                                opened.table.version, plugin_version);
  return opened;
}

const Opened& plugin() {
  static const Opened opened = open_plugin();
  return opened;
}

std::string probe() {
  if (!plugin().reason.empty()) return plugin().reason;
  return plugin().table.probe();
}

const bool is_registered =
    register_backend({"cuda", probe, [](const DeviceOptions& options) { return plugin().table.make(options); }});

}  // namespace

bool has_cuda_plugin() { return !find_plugin().file.empty(); }

}  // namespace muster::device
