// `muster info`: how this executable was built and what works here.
#include "cli/command.hpp"

#include <muster/comm/session.hpp>
#include <muster/device/backend.hpp>

#include <iostream>

#ifndef MUSTER_BUILD
#define MUSTER_BUILD "unknown"
#endif

namespace muster::cli {
namespace po = boost::program_options;

int run_info(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  const Arguments arguments("info", {}, flags, words);
  if (arguments.is_help()) return 0;
  std::cout << fmt::format("build     {} ({})\n", MUSTER_BUILD, __VERSION__);
  const auto session = comm::start_session({});
  const auto& launch = session->launch();
  std::cout << fmt::format("mpi       {}\n", session->library());
  std::cout << fmt::format("launch    {}, {} rank{} on this node, {} of {} usable cores for this rank{}\n",
                           launch.launcher, launch.ranks_on_node, launch.ranks_on_node == 1 ? "" : "s",
                           launch.cores_allowed, launch.cores_of_node, launch.is_bound ? " (bound)" : "");
  for (const auto& entry : device::registered_backends()) {
    const std::string reason = entry.probe();
    std::cout << fmt::format("backend   {}: {}\n", entry.name,
                             reason.empty() ? entry.make({})->describe() : "cannot be used: " + reason);
  }
  session->close();
  return 0;
}

}  // namespace muster::cli
