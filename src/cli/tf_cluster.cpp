#include "cli/tf_cluster.hpp"

#include "cli/job_script.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace muster::cli {
namespace {

/// "host:2222" or "[fe80::1]:2222" without the port
std::string host_of(const std::string& address) {
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  const auto colon = address.rfind(':');
  return colon == std::string::npos || address.find(':') != colon ? address : address.substr(0, colon);
}

std::vector<std::string> hosts_of(const nlohmann::json& cluster, const std::string& task, const std::string& origin) {
  std::vector<std::string> hosts;
  if (!cluster.contains(task)) return hosts;
  const auto& tasks = cluster.at(task);
  const auto is_text = [](const nlohmann::json& entry) { return entry.is_string() && !host_of(entry).empty(); };
  if (!tasks.is_array() || !std::ranges::all_of(tasks, is_text))
    fail(ExitCode::usage, "{}: cluster.{}: expected a list of \"host:port\", found {}", origin, task, tasks.dump());
  for (const auto& entry : tasks) hosts.push_back(host_of(entry));
  return hosts;
}

}  // namespace

TfCluster read_tf_cluster(const std::string& json, const std::string& origin) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object() || !object.contains("cluster") || !object.at("cluster").is_object())
    fail(ExitCode::usage,
         "{}: expected {{\"cluster\": {{\"worker\": [\"host:port\", ...], \"ps\": [...]}}, ...}}, found {}", origin,
         object.is_discarded() ? "no JSON" : object.dump());
  const auto& cluster = object.at("cluster");
  const std::vector<std::string> known{"chief", "master", "worker", "ps", "evaluator"};
  for (const auto& [task, hosts] : cluster.items())
    if (std::ranges::find(known, task) == known.end())
      fail(ExitCode::usage, "{}: cluster.{}: unknown kind of task{}; expected {}", origin, task,
           did_you_mean(task, known), join(known, ", "));
  TfCluster found{.servers = hosts_of(cluster, "ps", origin),
                  .workers = {},
                  .has_evaluator = !hosts_of(cluster, "evaluator", origin).empty()};
  for (const char* task : {"chief", "master", "worker"}) {
    const auto hosts = hosts_of(cluster, task, origin);
    found.workers.insert(found.workers.end(), hosts.begin(), hosts.end());
  }
  if (found.workers.empty())
    fail(ExitCode::usage, "{}: cluster: expected tasks \"worker\" or \"chief\", found none", origin);
  return found;
}

std::string host_file(const TfCluster& cluster) {
  std::string text;
  for (const auto* hosts : {&cluster.servers, &cluster.workers})
    for (const std::string& host : *hosts) text += host + "\n";
  return text;
}

std::string parallel_section(const TfCluster& cluster) {
  if (!cluster.servers.empty())
    return fmt::format(
        "parallel:\n"
        "  strategy: parameter_server   # as ParameterServerStrategy; staleness: unbounded is its way, 4 learns more "
        "surely\n"
        "  servers: {}\n"
        "  staleness: 4\n"
        "  lr_scaling: none\n",
        cluster.servers.size());
  const bool is_one_host = std::set<std::string>(cluster.workers.begin(), cluster.workers.end()).size() == 1;
  return fmt::format(
      "parallel:\n"
      "  strategy: {}   # as {}; data.batch is the global batch\n"
      "  lr_scaling: none\n",
      is_one_host ? "mirrored" : "multi_worker_mirrored",
      is_one_host ? "MirroredStrategy" : "MultiWorkerMirroredStrategy");
}

std::string start_line(const TfCluster& cluster, const std::string& hosts, const std::string& config) {
  return fmt::format("jobs/mpirun/muster-run -n {} --hostfile {} --map-by seq --bind-to none -- train {}",
                     cluster.ranks(), shell_word(hosts), shell_word(config));
}

}  // namespace muster::cli
