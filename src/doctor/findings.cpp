#include "doctor/findings.hpp"

#include <muster/base/text.hpp>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace muster::doctor {
namespace {

constexpr std::uint64_t least_shared_bytes = std::uint64_t{256} << 20;
constexpr std::uint64_t least_files = 1024;
constexpr double most_clock_difference_s = 1;
constexpr double least_of_card = 0.5;    // of what a network card states, one message of 16 MiB reaches
constexpr double least_of_memory = 0.1;  // of what copies reach, a reduction in shared memory reaches
constexpr double slow_disk_bytes_per_s = 50e6;
constexpr double slow_sync_s = 0.1;

/// "ranks 1, 3 and 4" or "5 ranks"
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() > 4) return fmt::format("{} ranks", ranks.size());
  std::vector<std::string> parts;
  for (const int rank : ranks) parts.push_back(std::to_string(rank));
  if (parts.size() == 1) return "rank " + parts[0];
  const std::string last = parts.back();
  parts.pop_back();
  return fmt::format("ranks {} and {}", join(parts, ", "), last);
}

std::map<std::string, std::vector<int>> ranks_by_host(std::span<const RankFacts> ranks) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t r = 0; r < ranks.size(); ++r) hosts[ranks[r].host].push_back(static_cast<int>(r));
  return hosts;
}

void check_builds(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].build == ranks[0].build && ranks[r].library == ranks[0].library) continue;
    findings.push_back({true,
                        fmt::format("rank {} on {} runs another build than rank 0: {}, {} instead of {}, {}", r,
                                    ranks[r].host, ranks[r].build, ranks[r].library, ranks[0].build, ranks[0].library),
                        "start the same file on all hosts: one on a shared file system, or `make install` on each"});
    return;
  }
}

void check_launch(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  std::set<std::string> said;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const std::string& problem : ranks[r].launch_problems)
      if (said.insert(problem).second)
        findings.push_back({true, fmt::format("rank {} on {}: {}", r, ranks[r].host, problem), ""});
}

/// Ranks of one host that were bound to the same cores although there are others, and hosts that stand half idle.
void check_cores(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    std::map<int, int> users;
    for (const int r : members)
      for (const int cpu : ranks[static_cast<std::size_t>(r)].cpus) ++users[cpu];
    const auto& first = ranks[static_cast<std::size_t>(members.front())];
    const bool is_bound = static_cast<int>(first.cpus.size()) < first.cpus_of_host;
    const auto shared = std::ranges::count_if(users, [](const auto& user) { return user.second > 1; });
    if (is_bound && shared > 0 && static_cast<int>(users.size()) < first.cpus_of_host)
      findings.push_back(
          {false,
           fmt::format("on {} {} share {} core{} while {} of {} stand idle", host, ranks_text(members), shared,
                       shared == 1 ? "" : "s", first.cpus_of_host - static_cast<int>(users.size()), first.cpus_of_host),
           "mpirun --map-by core --bind-to core, or srun --cpus-per-task=N --cpu-bind=cores"});
    else if (2 * static_cast<int>(users.size()) <= first.cpus_of_host)
      findings.push_back(
          {false,
           fmt::format("on {} {} may use {} of {} cores", host, ranks_text(members), users.size(), first.cpus_of_host),
           fmt::format("more ranks, or more cores for each: mpirun --map-by slot:PE={0}, or srun --cpus-per-task={0}",
                       std::max<std::size_t>(1, static_cast<std::size_t>(first.cpus_of_host) /
                                                    std::max<std::size_t>(1, members.size())))});
  }
}

void check_limits(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    const auto& first = ranks[static_cast<std::size_t>(members.front())];
    if (members.size() > 1 && first.shared_free_bytes < least_shared_bytes)
      findings.push_back({false,
                          fmt::format("{} has {} of shared memory left, in which the gradients of {} ranks meet", host,
                                      human_bytes(first.shared_free_bytes), members.size()),
                          "mount -o remount,size=8G /dev/shm, or docker run --shm-size=8g"});
    if (first.open_files < least_files)
      findings.push_back({false, fmt::format("a process on {} may open {} files only", host, first.open_files),
                          "ulimit -n 4096 before the start"});
    if (members.size() > 1 && first.ptrace_scope > 0)
      findings.push_back(
          {false,
           fmt::format("on {} ranks may not copy from each other's memory (kernel.yama.ptrace_scope={}); long messages "
                       "between stages take a way round",
                       host, first.ptrace_scope),
           "sysctl kernel.yama.ptrace_scope=0"});
  }
}

void check_hosts_alike(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].cpu == ranks[0].cpu) continue;
    findings.push_back(
        {false,
         fmt::format("the hosts are not alike: {} on {}, {} on {}; synchronous training goes at the pace "
                     "of the slowest",
                     ranks[0].cpu, ranks[0].host, ranks[r].cpu, ranks[r].host),
         "sbatch --constraint=..., or parallel.strategy: parameter_server, where fast workers do more"});
    break;
  }
  const auto [low, high] = std::ranges::minmax_element(ranks, {}, &RankFacts::clock_s);
  if (high->clock_s - low->clock_s > most_clock_difference_s)
    findings.push_back({false,
                        fmt::format("the clocks of {} and {} differ by {}", low->host, high->host,
                                    human_seconds(high->clock_s - low->clock_s)),
                        "run chrony or ntpd on both; the end of a Slurm job is an hour of the day"});
}

/// Open MPI takes every interface that is up. One whose address exists on two hosts (a bridge of Docker or libvirt)
/// leads each host to itself.
void check_interfaces(std::span<const RankFacts> ranks, std::vector<Finding>& findings) {
  std::map<std::string, std::set<std::string>> hosts_of_address;
  std::map<std::string, std::string> name_of_address;
  for (const RankFacts& rank : ranks)
    for (const Interface& interface : rank.interfaces) {
      hosts_of_address[interface.address].insert(rank.host);
      name_of_address[interface.address] = interface.name;
    }
  std::set<std::string> excluded;
  std::string example;
  for (const auto& [address, hosts] : hosts_of_address)
    if (hosts.size() > 1) {
      excluded.insert(name_of_address[address]);
      example = fmt::format("{} ({}) is an address of {} and of {}", address, name_of_address[address], *hosts.begin(),
                            *std::next(hosts.begin()));
    }
  if (excluded.empty()) return;
  const std::vector<std::string> names(excluded.begin(), excluded.end());
  findings.push_back(
      {false, example + "; messages that take it never arrive",
       fmt::format("mpirun --mca btl_tcp_if_exclude lo,{0} --mca oob_tcp_if_exclude lo,{0}", join(names, ","))});
}

/// The card that leads from one rank to the other: of the same network on both.
const Interface* common_card(const RankFacts& a, const RankFacts& b) {
  const Interface* best = nullptr;
  for (const Interface& mine : a.interfaces)
    for (const Interface& other : b.interfaces)
      if (mine.name == other.name && mine.address != other.address && mine.bytes_per_s > 0 &&
          (best == nullptr || mine.bytes_per_s > best->bytes_per_s))
        best = &mine;
  return best;
}

}  // namespace

std::vector<Finding> check_ranks(std::span<const RankFacts> ranks) {
  std::vector<Finding> findings;
  check_builds(ranks, findings);
  check_launch(ranks, findings);
  check_cores(ranks, findings);
  check_limits(ranks, findings);
  check_hosts_alike(ranks, findings);
  check_interfaces(ranks, findings);
  return findings;
}

std::vector<Finding> check_links(const LinkFacts& links, std::span<const RankFacts> ranks) {
  std::vector<Finding> findings;
  for (const PairFacts& pair : links.between) {
    const auto& a = ranks[static_cast<std::size_t>(pair.a)];
    const auto& b = ranks[static_cast<std::size_t>(pair.b)];
    const Interface* card = common_card(a, b);
    if (card == nullptr || pair.bytes_per_s >= least_of_card * card->bytes_per_s) continue;
    findings.push_back({false,
                        fmt::format("messages between {} and {} reach {:.2g} GB/s, but {} states {:.2g} GB/s", a.host,
                                    b.host, 1e-9 * pair.bytes_per_s, card->name, 1e-9 * card->bytes_per_s),
                        fmt::format("mpirun --mca btl_tcp_if_include {0} --mca oob_tcp_if_include {0}; for InfiniBand "
                                    "an MPI library built with UCX",
                                    card->name)});
  }
  if (links.reductions.empty() || links.within.empty()) return findings;
  const auto& in_node = links.reductions.front();
  if (in_node.bytes_per_s < least_of_memory * links.copy_bytes_per_s)
    findings.push_back(
        {false,
         fmt::format("the reduction inside a node moves {:.2g} GB/s, where copies of memory move {:.2g} GB/s",
                     1e-9 * in_node.bytes_per_s, 1e-9 * links.copy_bytes_per_s),
         "something else uses the cores, or the ranks share them: look at `top`, start one rank per core"});
  return findings;
}

std::vector<Finding> check_directory(const DirectoryFacts& directory) {
  const std::string& path = directory.path;
  if (!directory.problem.empty())
    return {{true, fmt::format("nothing can be written to {}: {}", path, directory.problem),
             "set run.directory to a place where you may write"}};
  std::vector<Finding> findings;
  if (!directory.reads_hdf5)
    findings.push_back({true, fmt::format("an HDF5 file written to {} does not read back", path),
                        "export HDF5_USE_FILE_LOCKING=FALSE, on file systems without locks"});
  if (!directory.has_locks)
    findings.push_back({false,
                        fmt::format("{} keeps no locks (flock): nothing prevents two runs in one directory, and job "
                                    "arrays of a sweep cannot share it",
                                    path),
                        "mount it with locks (Lustre: -o flock; NFS: nfsvers=4), or use another file system"});
  if (directory.write_bytes_per_s < slow_disk_bytes_per_s)
    findings.push_back(
        {false,
         fmt::format("{} takes {:.0f} MB/s; every checkpoint waits for it", path, 1e-6 * directory.write_bytes_per_s),
         "set run.directory to a faster file system, or checkpoint.every to more steps"});
  if (directory.sync_s > slow_sync_s)
    findings.push_back({false, fmt::format("a small file in {} needs {}", path, human_seconds(directory.sync_s)),
                        "set checkpoint.every to more steps"});
  return findings;
}

std::vector<Finding> check_slurm(const SlurmFacts& slurm, int ranks) {
  const auto is_pmix = [](const std::string& name) { return name.starts_with("pmix"); };
  if (!slurm.is_there || std::ranges::any_of(slurm.plugins, is_pmix)) return {};
  return {{false,
           fmt::format("Slurm has no plug-in for PMIx ({} only), so srun starts every rank of {} as a job of its own",
                       join(slurm.plugins, ", "), ranks > 1 ? std::to_string(ranks) : "a job"),
           "a Slurm built with PMIx (Debian: apt-get install slurm-wlm-basic-plugins libpmix2, on every node), or "
           "start with mpirun inside sbatch"}};
}

}  // namespace muster::doctor
