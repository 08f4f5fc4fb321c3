// `muster replay`: a recorded asynchronous run, computed again.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/train/replay.hpp>

namespace muster::cli {
namespace po = boost::program_options;

int run_replay(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the run's config (where its data lie); may repeat");
  const Arguments arguments("replay", {"RUN"}, flags, words);
  if (arguments.is_help()) return 0;
  return with_session(
      [&](comm::Session& session) { return train::replay(session, arguments.text("RUN"), arguments.list("set")); },
      [] { return std::string(); });
}

}  // namespace muster::cli
