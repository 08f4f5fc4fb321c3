// `muster job`: how to start a config on a cluster: a Slurm script, or what a TensorFlow user's TF_CONFIG becomes.
#include "cli/command.hpp"
#include "cli/job_script.hpp"
#include "cli/tf_cluster.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>
#include <muster/config/config.hpp>
#include <muster/config/sweep.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

namespace {

int at_least_one(const Arguments& arguments, const std::string& flag) {
  const int value = arguments.integer(flag);
  if (value < 1) fail(ExitCode::usage, "job: --{}: expected at least 1, found {}", flag, value);
  return value;
}

std::string line_safe(const Arguments& arguments, const std::string& flag) {
  const std::string text = arguments.has(flag) ? arguments.text(flag) : "";
  if (text.find_first_of(" \t\n'\"") != std::string::npos)
    fail(ExitCode::usage, "job: --{}: expected one word, found '{}'", flag, text);
  return text;
}

/// What would end the job at its start is told now.
void check(const JobRequest& request, const train::Config& config, int ranks) {
  std::vector<std::string> problems = config::check_ranks(config, ranks);
  if (request.nodes > 1 && config.parallel.strategy == "mirrored" && request.command == "train")
    problems.emplace_back(
        "parallel.strategy: mirrored is for the ranks of one node; use --set parallel.strategy=multi_worker_mirrored");
  if (config.device.threads > request.cpus_per_rank)
    problems.push_back(fmt::format("device.threads is {}, but a rank gets {} core{}; use --cpus-per-rank {}",
                                   config.device.threads, request.cpus_per_rank, request.cpus_per_rank == 1 ? "" : "s",
                                   config.device.threads));
  if (!problems.empty()) throw Error(ExitCode::usage, join(problems, "\n"));
}

JobRequest read_request(const Arguments& arguments, const std::vector<std::string>& words) {
  JobRequest request;
  request.nodes = at_least_one(arguments, "nodes");
  if (arguments.has("gpus-per-node")) request.gpus_per_node = at_least_one(arguments, "gpus-per-node");
  request.ranks_per_node = request.gpus_per_node;  // one rank per GPU
  if (arguments.has("ranks-per-node")) request.ranks_per_node = at_least_one(arguments, "ranks-per-node");
  if (request.ranks_per_node == 0) request.ranks_per_node = 1;
  if (request.gpus_per_node > 0 && request.ranks_per_node != request.gpus_per_node)
    fail(ExitCode::usage, "job: --ranks-per-node {} with --gpus-per-node {}: a rank has one GPU; leave one of them out",
         request.ranks_per_node, request.gpus_per_node);
  request.cpus_per_rank = at_least_one(arguments, "cpus-per-rank");
  request.save_s = at_least_one(arguments, "save-seconds");
  request.time = arguments.text("time");
  if (!is_slurm_time(request.time))
    fail(ExitCode::usage, "job: --time: expected minutes, HH:MM:SS or D-HH:MM:SS, found '{}'", request.time);
  request.partition = line_safe(arguments, "partition");
  request.account = line_safe(arguments, "account");
  request.arguments = {arguments.text("[CONFIG]")};
  for (const std::string& set : arguments.list("set")) {
    request.arguments.emplace_back("--set");
    request.arguments.push_back(set);
  }
  request.made_by = "muster job";
  for (const std::string& word : words) request.made_by += " " + shell_word(word);
  return request;
}

int print_script(const Arguments& arguments, const std::vector<std::string>& words) {
  JobRequest request = read_request(arguments, words);
  const int ranks = request.nodes * request.ranks_per_node;
  const std::string file = arguments.text("[CONFIG]");
  // (the environment here is not that of the job)
  const config::Overrides overrides{arguments.list("set"), false};
  if (arguments.has("sweep")) {
    request.command = "sweep";
    const auto plan = config::load_sweep(file, overrides);
    const auto first = config::load_trial(plan, 0);
    const auto per_trial = static_cast<int>(plan.options.ranks_per_trial);
    if (ranks % per_trial != 0)
      fail(ExitCode::usage, "sweep.ranks_per_trial: {} does not divide the {} ranks of the job", per_trial, ranks);
    check(request, first.config, per_trial);
    request.name = first.config.run.name;
  } else {
    const auto loaded = config::load(file, overrides);
    check(request, loaded.config, ranks);
    request.has_servers = loaded.config.parallel.strategy == "parameter_server";
    request.name = loaded.config.run.name;
  }
  std::cout << job_script(request);
  return 0;
}

int print_tf_cluster(const Arguments& arguments) {
  const char* variable = std::getenv("TF_CONFIG");
  if (variable == nullptr)
    fail(ExitCode::usage,
         "job: --from-tf-config: TF_CONFIG is not set; from a file: TF_CONFIG=$(cat FILE) muster job ...");
  const TfCluster cluster = read_tf_cluster(variable, "TF_CONFIG");
  const std::string config = arguments.has("[CONFIG]") ? arguments.text("[CONFIG]") : "CONFIG";
  const std::string hosts = arguments.text("hosts");
  if (std::filesystem::exists(hosts))
    fail(ExitCode::usage, "job: {} exists; remove it, or name another host file with --hosts", hosts);
  write_file_atomic(hosts, host_file(cluster));
  std::cout << fmt::format("# {}: {} ranks, of them {} parameter servers, in the order of ranks\n", hosts,
                           cluster.ranks(), cluster.servers.size());
  if (cluster.has_evaluator) std::cout << "# the evaluator has no rank: workers evaluate (eval.every)\n";
  std::cout << "# into the config:\n" << parallel_section(cluster) << "# the start:\n# ";
  std::cout << start_line(cluster, hosts, config) << "\n";
  return 0;
}

}  // namespace

int run_job(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  const auto number = [](int preset) { return po::value<int>()->default_value(preset); };
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(), "key=value, as for train; may repeat")(
      "nodes", number(1), "of the job")("ranks-per-node", po::value<int>(), "one per GPU, else 1")(
      "gpus-per-node", po::value<int>(), "none")("cpus-per-rank", number(1), "cores of a rank")(
      "time", po::value<std::string>()->default_value("01:00:00"), "limit of the job, as for sbatch")(
      "partition", po::value<std::string>(), "of the cluster")("account", po::value<std::string>(), "to charge")(
      "save-seconds", number(60), "before the end, when Slurm tells the job to save")(
      "sweep", "the config has a section sweep: muster sweep instead of muster train")(
      "from-tf-config",
      "read the environment's TF_CONFIG: writes a host file, prints the section parallel and the line that starts it")(
      "hosts", po::value<std::string>()->default_value("hosts"), "the host file that --from-tf-config writes");
  const Arguments arguments("job", {"[CONFIG]"}, flags, words);
  if (arguments.is_help()) return 0;
  if (arguments.has("from-tf-config")) return print_tf_cluster(arguments);
  if (!arguments.has("[CONFIG]")) fail(ExitCode::usage, "job: expected CONFIG, found nothing; see muster job --help");
  return print_script(arguments, words);
}

}  // namespace muster::cli
