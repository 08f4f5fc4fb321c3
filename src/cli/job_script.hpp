// The text of a Slurm script for a job of muster. Private to cli.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

struct JobRequest {
  std::string command = "train";       ///< train | sweep
  std::string name = "muster";         ///< in Slurm's queue
  std::vector<std::string> arguments;  ///< of the command: the config, then flags
  int nodes = 1;
  int ranks_per_node = 1;
  int gpus_per_node = 0;
  int cpus_per_rank = 1;
  std::string time = "01:00:00";   ///< as Slurm writes it
  std::string partition, account;  ///< "": Slurm's default
  int save_s = 60;                 ///< before the end of the job its ranks are told to save
  bool has_servers = false;        ///< parameter servers: the job must outlive its workers
  std::string made_by;             ///< the command that asks for this script, for its head
};

/// A script that sbatch takes, in the manner of jobs/slurm.
std::string job_script(const JobRequest& request);

/// One word of a POSIX shell, quoted where it must be.
std::string shell_word(const std::string& text);

/// Whether Slurm takes it as a duration: minutes, minutes:seconds, hours:minutes:seconds,
/// days-hours[:minutes[:seconds]].
bool is_slurm_time(const std::string& text);

}  // namespace muster::cli
