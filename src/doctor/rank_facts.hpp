// What each rank knows of its host and of itself.
#pragma once

#include <muster/comm/session.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace muster::doctor {

struct Interface {
  std::string name;
  std::string address;     ///< IPv4, "10.1.2.3"
  int prefix = 0;          ///< of its network, in bits
  double bytes_per_s = 0;  ///< as the driver states it; 0: it states nothing
  bool operator==(const Interface&) const = default;
};

struct RankFacts {
  std::string host, build, library, launcher, cpu;
  std::vector<int> cpus;  ///< that this process may run on
  int cpus_of_host = 1;   ///< online
  std::uint64_t memory_bytes = 0;
  std::uint64_t shared_free_bytes = 0;  ///< /dev/shm
  std::uint64_t open_files = 0;         ///< limit of this process
  int ptrace_scope = 0;                 ///< of the Yama module; 0 where there is none
  double clock_s = 0;                   ///< since 1970, read right after a barrier
  std::vector<Interface> interfaces;    ///< that are up, without the loopback
  std::vector<std::string> launch_problems;
  bool operator==(const RankFacts&) const = default;
};

/// Of this rank. Collective over the session's world.
RankFacts read_rank_facts(comm::Session& session, const std::string& build);

/// As text, to pass between ranks.
std::string to_text(const RankFacts& facts);
/// Throws Error(internal) for anything that to_text did not write.
RankFacts from_text(const std::string& text);

}  // namespace muster::doctor
