// `muster check`: everything about a config that can be known without a job.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/config/config.hpp>
#include <muster/model/network.hpp>

#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

int run_check(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the file; may repeat")("ranks", po::value<int>()->default_value(1),
                                                                   "check for a job of this many ranks")(
      "effective", "print the complete effective config")("print-reference",
                                                          "print every key with its meaning, and end");
  const Arguments arguments("check", {"[CONFIG]"}, flags, words);
  if (arguments.is_help()) return 0;
  if (arguments.has("print-reference")) {
    std::cout << config::reference();
    return 0;
  }
  if (!arguments.has("[CONFIG]"))
    fail(ExitCode::usage, "check: expected CONFIG, found nothing; see muster check --help");

  const auto loaded = config::load(arguments.text("[CONFIG]"), {arguments.list("set"), true});
  const int ranks = arguments.integer("ranks");
  if (ranks < 1) fail(ExitCode::usage, "check: --ranks: expected at least 1, found {}", ranks);
  if (const auto problems = config::check_ranks(loaded.config, ranks); !problems.empty())
    throw Error(ExitCode::usage, join(problems, "\n"));
  const auto network = model::build_network(loaded.config.model);
  for (const std::string& line : loaded.table) std::cout << line << "\n";
  std::cout << fmt::format("{:<40} {:<12} {:<18} {:>10}\n", "layer", "op", "output", "parameters");
  for (const std::string& line : model::describe(network)) std::cout << line << "\n";
  if (arguments.has("effective")) std::cout << loaded.effective_yaml;
  std::cout << fmt::format("ok: {} for {} rank{}: {} parameters\n", arguments.text("[CONFIG]"), ranks,
                           ranks == 1 ? "" : "s", network.parameter_count());
  return 0;
}

}  // namespace muster::cli
