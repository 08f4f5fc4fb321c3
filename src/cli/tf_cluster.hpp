// TensorFlow's description of a cluster (the environment variable TF_CONFIG) and what it means here. Private to cli.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

struct TfCluster {
  std::vector<std::string> servers;  ///< hosts of the tasks "ps", in their order, without ports
  std::vector<std::string> workers;  ///< of "chief" (or "master"), then "worker"
  bool has_evaluator = false;        ///< here the workers evaluate

  int ranks() const { return static_cast<int>(servers.size() + workers.size()); }
};

/// Throws Error(usage) that says what of the form {"cluster": {"worker": ["host:port", ...], "ps": [...]}, ...} is
/// missing or unknown. origin: for the message, a file or "TF_CONFIG".
TfCluster read_tf_cluster(const std::string& json, const std::string& origin);

/// A host per rank, in the order of ranks (servers first), a line each: a host file for `mpirun --map-by seq`.
std::string host_file(const TfCluster& cluster);
/// The section `parallel` of the config, of the same strategy: parameter servers where there are some, else all workers
/// in step.
std::string parallel_section(const TfCluster& cluster);
/// The line that starts it.
std::string start_line(const TfCluster& cluster, const std::string& hosts, const std::string& config);

}  // namespace muster::cli
