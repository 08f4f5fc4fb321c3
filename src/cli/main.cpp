// The executable: finds the command, runs it, turns an Error that leaves it into one message and the exit code.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>

#include <iostream>

namespace {

using namespace muster;

int print_help() {
  std::cout << "muster trains neural networks on the ranks of an MPI job, from one YAML file.\n\n"
               "usage: muster COMMAND [arguments] [--flags]\n\ncommands:\n";
  for (const auto& command : cli::commands())
    std::cout << fmt::format("  {:<8} {:<10} {}\n", command.name, command.arguments, command.summary);
  std::cout << "\nmuster COMMAND --help shows a command's flags.\n\n" << cli::exit_code_help();
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") return print_help();
  std::vector<std::string> names;
  for (const auto& command : cli::commands()) {
    if (command.name == words[0]) return command.run({words.begin() + 1, words.end()});
    names.push_back(command.name);
  }
  fail(ExitCode::usage, "unknown command '{}'{}; see muster --help", words[0], did_you_mean(words[0], names));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (...) {
    const Failure failure = current_failure();
    const char* kind = failure.code == ExitCode::internal ? "internal error" : "error";
    if (!failure.message.empty()) log::write_error(fmt::format("muster: {}: {}", kind, failure.message));
    return static_cast<int>(failure.code);
  }
}
