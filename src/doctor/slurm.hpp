// What Slurm offers to start MPI programs with.
#pragma once

#include <string>
#include <vector>

namespace muster::doctor {

struct SlurmFacts {
  bool is_there = false;             ///< srun is in PATH and answers
  std::vector<std::string> plugins;  ///< "pmi2", "pmix_v4", ...
};

/// Asks `srun --mpi=list`, for 10 s at most.
SlurmFacts ask_slurm();

/// The plug-ins in the output of `srun --mpi=list`, as Slurm 20 to 24 word it.
std::vector<std::string> plugins_in(const std::string& output);

}  // namespace muster::doctor
