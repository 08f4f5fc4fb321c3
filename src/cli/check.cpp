// `muster check`: everything about a config that can be known without a job.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/config/config.hpp>
#include <muster/model/stages.hpp>
#include <muster/parallel/pipeline/schedule.hpp>
#include <muster/train/assemble.hpp>

#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

namespace {

/// How the network is cut, and when the stages work.
void print_pipeline(const train::Config& config, const model::Network& network) {
  constexpr std::size_t longest_line = 200;
  const auto kind = parallel::pipeline_kind(config.parallel.pipeline_schedule);
  const model::StageCut cut = model::cut_stages(network, config.parallel.pipeline);
  for (const std::string& line : model::describe(network, cut)) std::cout << line << "\n";
  const std::int64_t micro_batches = config.run.accumulate;
  const std::vector<std::string> timeline = parallel::pipeline_timeline(kind, cut.stages(), micro_batches);
  if (timeline.front().size() <= longest_line)
    for (const std::string& line : timeline) std::cout << line << "\n";
  const std::vector<double> equal(cut.flops.size(), 1.0);
  std::cout << fmt::format("{} with {} micro-batches: bubble {:.1f} % with equal stages, {:.1f} % by counted FLOPs\n",
                           config.parallel.pipeline_schedule, micro_batches,
                           100 * parallel::pipeline_times(kind, micro_batches, equal).bubble_share,
                           100 * parallel::pipeline_times(kind, micro_batches, cut.flops).bubble_share);
}

}  // namespace

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
  train::check_no_decay(loaded.config.optimizer, network);
  for (const std::string& line : loaded.table) std::cout << line << "\n";
  std::cout << fmt::format("{:<40} {:<12} {:<18} {:>10}\n", "layer", "op", "output", "parameters");
  for (const std::string& line : model::describe(network)) std::cout << line << "\n";
  if (loaded.config.parallel.pipeline > 1) print_pipeline(loaded.config, network);
  if (arguments.has("effective")) std::cout << loaded.effective_yaml;
  std::cout << fmt::format("ok: {} for {} rank{}: {} parameters\n", arguments.text("[CONFIG]"), ranks,
                           ranks == 1 ? "" : "s", network.parameter_count());
  return 0;
}

}  // namespace muster::cli
