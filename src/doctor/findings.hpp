// What is wrong with what was seen, and the line that mends it. Pure.
#pragma once

#include "doctor/links.hpp"
#include "doctor/rank_facts.hpp"
#include "doctor/slurm.hpp"
#include "doctor/storage.hpp"

#include <span>
#include <string>
#include <vector>

namespace muster::doctor {

struct Finding {
  bool stops_runs = false;  ///< a run as started here fails; else it is slow or at risk
  std::string what;
  std::string mend;
};

/// Of the ranks, by rank: builds, launch, cores, limits, clocks, interfaces.
std::vector<Finding> check_ranks(std::span<const RankFacts> ranks);
/// Of the links, against what memory and network cards should give.
std::vector<Finding> check_links(const LinkFacts& links, std::span<const RankFacts> ranks);
std::vector<Finding> check_directory(const DirectoryFacts& directory);
/// Of a job with so many ranks.
std::vector<Finding> check_slurm(const SlurmFacts& slurm, int ranks);

}  // namespace muster::doctor
