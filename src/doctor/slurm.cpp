#include "doctor/slurm.hpp"

#include <muster/base/text.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

namespace muster::doctor {

SlurmFacts ask_slurm() {
  struct Close {
    void operator()(std::FILE* pipe) const { ::pclose(pipe); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(
      ::popen("command -v srun >/dev/null && timeout 10 srun --mpi=list 2>&1 </dev/null", "r"));
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe.get()))
    output.append(piece.data(), count);
  const auto plugins = plugins_in(output);
  return {.is_there = !plugins.empty(), .plugins = plugins};
}

// "srun: MPI types are..." or "MPI plugin types are...", then a name a line, with or without "srun: " before it; newer
// ones add "specific pmix plugin versions available: pmix_v4".
std::vector<std::string> plugins_in(const std::string& output) {
  std::vector<std::string> plugins;
  bool is_list = false;
  for (std::string line : split(output, '\n')) {
    if (line.starts_with("srun: ")) line.erase(0, 6);
    std::erase_if(line, [](char c) { return c == '\t' || c == ' ' || c == '\r'; });
    if (line.starts_with("MPItypesare") || line.starts_with("MPIplugintypesare")) {
      is_list = true;
      continue;
    }
    if (const auto colon = line.find(':'); colon != std::string::npos) line.erase(0, colon + 1);
    if (!is_list) continue;
    for (const std::string& name : split(line, ','))
      if (!name.empty() && std::ranges::find(plugins, name) == plugins.end()) plugins.push_back(name);
  }
  return plugins;
}

}  // namespace muster::doctor
