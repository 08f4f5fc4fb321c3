// `muster doctor`: looks at a machine, or at the ranks of a job, before runs depend on them.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/device/backend.hpp>
#include <muster/doctor/doctor.hpp>

#ifndef MUSTER_BUILD
#define MUSTER_BUILD "unknown"
#endif

namespace muster::cli {
namespace po = boost::program_options;

namespace {

std::vector<std::string> devices() {
  std::vector<std::string> lines;
  for (const auto& entry : device::registered_backends()) {
    const std::string reason = entry.probe();
    lines.push_back(
        fmt::format("{}: {}", entry.name, reason.empty() ? entry.make({})->describe() : "cannot be used: " + reason));
  }
  return lines;
}

}  // namespace

int run_doctor(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("directory", po::value<std::vector<std::string>>()->composing(),
                      "also examine this directory, where runs or data will lie; may be given several times (the "
                      "current one)");
  const Arguments arguments("doctor", {}, flags, words);
  if (arguments.is_help()) return 0;
  doctor::Options options;
  options.build = fmt::format("{} ({})", MUSTER_BUILD, __VERSION__);
  options.devices = devices();
  options.directories = arguments.list("directory");
  if (options.directories.empty()) options.directories = {"."};
  return with_session([&](comm::Session& session) { return doctor::examine(session, options); },
                      [] { return std::string(); });
}

}  // namespace muster::cli
