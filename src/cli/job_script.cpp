#include "cli/job_script.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <regex>

namespace muster::cli {

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

bool is_slurm_time(const std::string& text) {
  static const std::regex form(R"((\d+(:[0-5]?\d){0,2})|(\d+-\d{1,2}(:[0-5]?\d){0,2}))");
  return std::regex_match(text, form) && text.find_first_of("123456789") != std::string::npos;
}

namespace {

std::string directives(const JobRequest& request) {
  std::string text;
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", option, value);
  };
  add("job-name", request.name);
  add("nodes", std::to_string(request.nodes));
  add("ntasks-per-node", std::to_string(request.ranks_per_node));
  add("cpus-per-task", std::to_string(request.cpus_per_rank));
  if (request.gpus_per_node > 0) add("gpus-per-node", std::to_string(request.gpus_per_node));
  add("time", request.time);
  add("partition", request.partition);
  add("account", request.account);
  add("signal", fmt::format("B:USR1@{}", request.save_s));
  add("output", "slurm-%j.out");
  return text + "#SBATCH --open-mode=append\n";
}

std::string start(const JobRequest& request) {
  std::string words = " " + request.command;
  for (const std::string& argument : request.arguments) words += " " + shell_word(argument);
  if (request.command == "train") words += " --continue";
  if (request.has_servers)
    return "export MUSTER=$muster\n"
           "launch \"$SLURM_SUBMIT_DIR/jobs/mpirun/muster-run\" -n \"$SLURM_NTASKS\" --bind-to none --mca osc ^ucx -- "
           "\\\n " +
           words + "\n";
  return "launch srun --mpi=pmix \"$muster\"" + words + "\n";
}

}  // namespace

std::string job_script(const JobRequest& request) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Made by: {}\n"
      "# A run that has checkpoints goes on from them; the state is saved before the time is over: exit code 75.\n"
      "{}"
      "source \"$SLURM_SUBMIT_DIR/jobs/slurm/launch.sh\" || exit 2 # sbatch is to be started in the root of the "
      "tree\n\n"
      "{}",
      request.made_by, directives(request), start(request));
}

}  // namespace muster::cli
