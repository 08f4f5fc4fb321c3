#include "doctor/rank_facts.hpp"

#include <muster/base/error.hpp>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <chrono>
#include <fstream>

namespace muster::doctor {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

long number_in(const std::string& path) {
  const std::string line = first_line(path);
  return line.empty() ? 0 : std::strtol(line.c_str(), nullptr, 10);
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown CPU";
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* it = first; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_netmask == nullptr || it->ifa_addr->sa_family != AF_INET) continue;
    if ((it->ifa_flags & IFF_UP) == 0 || (it->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(it->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(it->ifa_netmask);
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    const long megabits = number_in(std::string("/sys/class/net/") + it->ifa_name + "/speed");
    found.push_back({it->ifa_name, text, std::popcount(mask->sin_addr.s_addr),
                     megabits > 0 ? static_cast<double>(megabits) * 1e6 / 8 : 0});
  }
  ::freeifaddrs(first);
  return found;
}

std::uint64_t free_bytes_of(const char* path) {
  struct statvfs status {};
  return ::statvfs(path, &status) == 0 ? std::uint64_t{status.f_bavail} * status.f_frsize : 0;
}

}  // namespace

RankFacts read_rank_facts(comm::Session& session, const std::string& build) {
  RankFacts facts;
  auto& world = session.world();
  facts.host = world.host(world.rank());
  facts.build = build;
  facts.library = session.library();
  facts.launcher = session.launch().launcher;
  facts.cpu = cpu_model();
  facts.cpus = allowed_cpus();
  facts.cpus_of_host = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.memory_bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  facts.shared_free_bytes = free_bytes_of("/dev/shm");
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  facts.open_files = limit.rlim_cur;
  facts.ptrace_scope = static_cast<int>(number_in("/proc/sys/kernel/yama/ptrace_scope"));
  facts.interfaces = interfaces();
  facts.launch_problems = comm::launch_problems(session.launch(), 1, false);
  world.barrier("comparison of the clocks");
  facts.clock_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return facts;
}

std::string to_text(const RankFacts& facts) {
  nlohmann::json object{{"host", facts.host},
                        {"build", facts.build},
                        {"library", facts.library},
                        {"launcher", facts.launcher},
                        {"cpu", facts.cpu},
                        {"cpus", facts.cpus},
                        {"cpus_of_host", facts.cpus_of_host},
                        {"memory", facts.memory_bytes},
                        {"shared_free", facts.shared_free_bytes},
                        {"open_files", facts.open_files},
                        {"ptrace_scope", facts.ptrace_scope},
                        {"clock", facts.clock_s},
                        {"problems", facts.launch_problems},
                        {"interfaces", nlohmann::json::array()}};
  for (const Interface& i : facts.interfaces)
    object["interfaces"].push_back({i.name, i.address, i.prefix, i.bytes_per_s});
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankFacts from_text(const std::string& text) {
  try {
    const auto object = nlohmann::json::parse(text);
    RankFacts facts;
    facts.host = object.at("host");
    facts.build = object.at("build");
    facts.library = object.at("library");
    facts.launcher = object.at("launcher");
    facts.cpu = object.at("cpu");
    facts.cpus = object.at("cpus").get<std::vector<int>>();
    facts.cpus_of_host = object.at("cpus_of_host");
    facts.memory_bytes = object.at("memory");
    facts.shared_free_bytes = object.at("shared_free");
    facts.open_files = object.at("open_files");
    facts.ptrace_scope = object.at("ptrace_scope");
    facts.clock_s = object.at("clock");
    facts.launch_problems = object.at("problems").get<std::vector<std::string>>();
    for (const auto& i : object.at("interfaces")) facts.interfaces.push_back({i.at(0), i.at(1), i.at(2), i.at(3)});
    return facts;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::internal, "facts of a rank: expected what to_text writes, found '{}' ({})", text, error.what());
  }
}

}  // namespace muster::doctor
