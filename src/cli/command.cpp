#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"train", "CONFIG", "train the network of a config on the ranks of this job", run_train},
      {"sweep", "CONFIG", "train a config with many values of some keys, on groups of the ranks, and rank them",
       run_sweep},
      {"eval", "RUN", "evaluate a run's newest checkpoint", run_eval},
      {"replay", "RUN", "compute a recorded asynchronous run again and compare to the bit", run_replay},
      {"predict", "RUN [INPUT]", "apply a run's network to the samples of an HDF5 file, or continue a text",
       run_predict},
      {"export", "RUN FILE",
       "write a run's weights as safetensors, also under the names of GPT-2, or its network as ONNX", run_export},
      {"check", "CONFIG", "validate a config, also for a number of ranks, without running it", run_check},
      {"convert", "FORMAT", "turn idx, CIFAR, CSV, npy or raw files into HDF5", run_convert},
      {"inspect", "FILE", "show what an HDF5 file holds", run_inspect},
      {"report", "RUN...", "draw the curves and settings of runs as one HTML page", run_report},
      {"job", "[CONFIG]", "print a Slurm script for a config, or what a TF_CONFIG becomes", run_job},
      {"doctor", "", "look at the ranks of a job, their links and directories, and say what to mend", run_doctor},
      {"info", "", "show how this executable was built and what it found", run_info},
  };
  return table;
}

std::string exit_code_help() {
  return "Exit codes: 0 done, 2 usage or config, 3 data, 4 launch or environment mismatch, 5 device or out of memory,\n"
         "6 communication deadline or lost rank, 7 diverged, 8 checkpoint, 70 internal error,\n"
         "75 stopped by a signal, state saved, please start again\n";
}

namespace {

bool is_repeating(const std::string& positional) { return positional.ends_with("..."); }

std::string bare(const std::string& positional) {
  return is_repeating(positional) ? positional.substr(0, positional.size() - 3) : positional;
}

std::string usage_line(const std::string& command, const std::vector<std::string>& positionals) {
  std::string line = "usage: muster " + command;
  for (const std::string& positional : positionals) line += " " + positional;
  return line + " [flags]";
}

}  // namespace

Arguments::Arguments(const std::string& command, const std::vector<std::string>& positionals,
                     const po::options_description& flags, const std::vector<std::string>& arguments) {
  po::options_description visible(flags);
  visible.add_options()("help", "show this text");
  po::options_description all(visible);
  po::positional_options_description order;
  for (const std::string& positional : positionals) {
    if (is_repeating(positional)) all.add_options()(bare(positional).c_str(), po::value<std::vector<std::string>>());
    else all.add_options()(positional.c_str(), po::value<std::string>());
    order.add(bare(positional).c_str(), is_repeating(positional) ? -1 : 1);
  }
  const std::string hint = fmt::format("; see muster {} --help", command);
  try {
    using style = po::command_line_style::style_t;
    const auto parsed =
        po::command_line_parser(arguments)
            .options(all)
            .positional(order)
            .style((po::command_line_style::unix_style & ~po::command_line_style::allow_guessing) | style::allow_long)
            .run();
    po::store(parsed, values_);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> known;
    for (const auto& option : visible.options()) known.push_back("--" + option->long_name());
    fail(ExitCode::usage, "{}: unknown flag {}{}{}", command, error.get_option_name(),
         did_you_mean(error.get_option_name(), known), hint);
  } catch (const po::too_many_positional_options_error&) {
    fail(ExitCode::usage, "{}: too many arguments; {}{}", command, usage_line(command, positionals), hint);
  } catch (const po::error& error) {
    fail(ExitCode::usage, "{}: {}{}", command, error.what(), hint);
  }
  if (values_.count("help") > 0) {
    is_help_ = true;
    std::cout << usage_line(command, positionals) << "\n\n" << visible << "\n" << exit_code_help();
    return;
  }
  for (const std::string& positional : positionals)
    if (values_.count(bare(positional)) == 0 && !positional.starts_with("["))
      fail(ExitCode::usage, "{}: expected {}, found nothing; {}{}", command, bare(positional),
           usage_line(command, positionals), hint);
}

std::vector<std::string> Arguments::list(const std::string& name) const {
  return has(name) ? values_[name].as<std::vector<std::string>>() : std::vector<std::string>{};
}

}  // namespace muster::cli
