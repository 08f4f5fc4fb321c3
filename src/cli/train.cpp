// `muster train`: the main job.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/base/error.hpp>
#include <muster/config/config.hpp>
#include <muster/train/loop.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/together.hpp>

#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

int run_train(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the file; may repeat")(
      "resume", "continue the run in its directory from its newest checkpoint")(
      "continue", "resume where there is a checkpoint, else start anew: for jobs that are queued again")(
      "force", "replace an existing run of that directory");
  const Arguments arguments("train", {"CONFIG"}, flags, words);
  if (arguments.is_help()) return 0;

  if (arguments.has("resume") + arguments.has("force") + arguments.has("continue") > 1)
    fail(ExitCode::usage, "train: --resume, --force and --continue exclude each other");
  train::install_signal_handlers();
  std::string run_directory;
  return with_session(
      [&](comm::Session& session) {
        config::Loaded loaded;
        train::together(session.world(), "reading the config", [&] {
          loaded = config::load(arguments.text("CONFIG"), {arguments.list("set"), true});
        });
        run_directory = loaded.config.run.directory;
        train::TrainFlags train_flags{arguments.has("resume"), arguments.has("force")};
        if (arguments.has("continue")) train_flags = train::continue_flags(session.world(), run_directory);
        return train::train(session, loaded, train_flags);
      },
      [&] { return run_directory; });
}

}  // namespace muster::cli
