// The backends that registered themselves, and the choice between them: the first that this machine can run, or the
// reasons why none can.
#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>
#include <muster/device/backend.hpp>
#include <muster/device/plugin.hpp>

namespace muster::device {
namespace {

std::vector<BackendEntry>& entries() {
  static std::vector<BackendEntry> all;
  return all;
}

}  // namespace

bool register_backend(BackendEntry entry) {
  entries().push_back(std::move(entry));
  return true;
}

std::vector<BackendEntry> registered_backends() { return entries(); }

std::unique_ptr<Backend> make_backend(const DeviceOptions& options) {
  std::vector<std::string> wanted{options.kind};
  if (options.kind == "auto") wanted = {"cuda", "cpu"};
  std::vector<std::string> reasons;
  for (const std::string& kind : wanted) {
    std::string reason = "not part of this build";
    for (const BackendEntry& entry : entries()) {
      if (entry.name != kind) continue;
      reason = entry.probe();
      if (reason.empty()) {
        // Said only where the build can use GPUs: elsewhere `auto` has nothing to fall back from.
        if (!reasons.empty() && has_cuda_plugin()) log::info("device      {} is used: {}", kind, join(reasons, "; "));
        return entry.make(options);
      }
    }
    reasons.push_back(fmt::format("{}: {}", kind, reason));
  }
  fail(ExitCode::launch, "device.kind: {} cannot be used here ({}); `muster info` lists what can", options.kind,
       join(reasons, "; "));
}

}  // namespace muster::device
