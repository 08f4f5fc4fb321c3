// `muster sweep`: many runs of one config under one mpirun.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/train/signals.hpp>
#include <muster/train/sweep.hpp>
#include <muster/train/together.hpp>

namespace muster::cli {
namespace po = boost::program_options;

int run_sweep(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the file in every trial, or a key of sweep itself; may repeat");
  const Arguments arguments("sweep", {"CONFIG"}, flags, words);
  if (arguments.is_help()) return 0;
  train::install_signal_handlers();
  return with_session(
      [&](comm::Session& session) {
        config::Sweep plan;
        train::together(session.world(), "reading the config", [&] {
          plan = config::load_sweep(arguments.text("CONFIG"), {arguments.list("set"), true});
        });
        return train::sweep(session, plan);
      },
      [] { return std::string(); });
}

}  // namespace muster::cli
