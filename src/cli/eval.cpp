// `muster eval`: a run's network on its test split.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/dataset/dataset.hpp>
#include <muster/train/evaluate.hpp>
#include <muster/train/restore.hpp>
#include <muster/train/signals.hpp>
#include <muster/train/together.hpp>

namespace muster::cli {
namespace po = boost::program_options;
namespace {

void print_confusion(const std::vector<std::int64_t>& confusion, std::int64_t classes) {
  log::info("confusion matrix: rows are labels, columns predictions");
  for (std::int64_t label = 0; label < classes; ++label) {
    std::string line = fmt::format("{:>5} |", label);
    for (std::int64_t c = 0; c < classes; ++c)
      line += fmt::format(" {:>6}", confusion[static_cast<std::size_t>(label * classes + c)]);
    log::info("{}", line);
  }
}

}  // namespace

int run_eval(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the run's config; may repeat")(
      "step", po::value<int>()->default_value(-1), "the checkpoint of this step instead of the newest")(
      "confusion", "also print the confusion matrix");
  const Arguments arguments("eval", {"RUN"}, flags, words);
  if (arguments.is_help()) return 0;
  train::install_signal_handlers();
  return with_session(
      [&](comm::Session& session) {
        std::unique_ptr<train::TrainedNetwork> trained;
        train::EvalResult result;
        const bool wants_confusion = arguments.has("confusion");
        train::together(session.world(), "opening the run", [&] {
          trained = train::restore_network(arguments.text("RUN"), arguments.list("set"), arguments.integer("step"),
                                           session.launch().cores_per_rank());
          const auto& config = trained->loaded.config;
          if (!dataset::open_test(config.data, config.run.seed))
            fail(ExitCode::usage, "eval: the run's config has no data.test; give one with --set data.test=FILE");
        });
        session.set_deadline(trained->loaded.config.run.deadline_s);
        if (wants_confusion && trained->network.targets_per_sample() > 1)
          fail(ExitCode::usage, "eval: --confusion is for one label per sample, this network has {}",
               trained->network.targets_per_sample());
        train::Evaluator evaluator(trained->loaded.config, trained->network, *trained->backend, *trained->store,
                                   session.world(), trained->threads);
        result = evaluator.run(wants_confusion);
        if (result.is_stopped) return ExitCode::requeue;
        std::string line = fmt::format("step {}  samples {}  loss {:.6f}", trained->step, result.samples, result.loss);
        const bool has_labels = trained->network.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
        if (has_labels) line += fmt::format("  accuracy {:.2f} %", 100 * result.accuracy);
        if (trained->network.top_k > 0)
          line += fmt::format("  top-{} {:.2f} %", trained->network.top_k, 100 * result.top_k_accuracy);
        log::info("{}", line);
        if (wants_confusion && has_labels) print_confusion(result.confusion, trained->network.classes());
        return ExitCode::done;
      },
      [] { return std::string(); });
}

}  // namespace muster::cli
