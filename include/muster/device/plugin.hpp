// A backend that lives in a shared library of its own, opened only when somebody asks for it: linking its libraries
// into the executable would slow every start. The library finds muster's own functions in the executable that opens it.
#pragma once

#include <muster/device/backend.hpp>

#include <string>

namespace muster::device {

/// Raised with every change of the interfaces that a plugin uses; executable and plugin must agree.
inline constexpr int plugin_version = 1;

/// What the plugin's exported function `muster_backend_plugin` fills in.
struct PluginTable {
  int version = 0;
  std::string (*probe)() = nullptr;  ///< why it cannot run here; "" when it can
  std::unique_ptr<Backend> (*make)(const DeviceOptions& options) = nullptr;
};
using PluginEntry = void(PluginTable* table);

/// Whether this build made a plugin for GPUs at all (its file lies beside the executable), for messages.
bool has_cuda_plugin();

}  // namespace muster::device
