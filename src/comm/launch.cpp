#include "comm/launch.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace muster::comm {

namespace {

using Variables = std::function<const char*(const char*)>;

bool is_any_set(const Variables& variable, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return variable(name) != nullptr; });
}

/// Keeps the largest number of tasks that one of these variables claims; a rank proves one task more than itself.
void count_tasks(const Variables& variable, std::initializer_list<const char*> names, int more, LaunchFacts& facts) {
  for (const char* name : names) {
    const int tasks = variable(name) ? std::atoi(variable(name)) + more : 0;
    if (tasks <= facts.tasks_of_job) continue;
    facts.tasks_of_job = tasks;
    facts.tasks_said_by = fmt::format("{}={}", name, variable(name));
  }
}

}  // namespace

LaunchFacts facts_from_environment(const Variables& variable) {
  LaunchFacts facts;
  facts.launcher = "none";
  if (is_any_set(variable, {"OMPI_COMM_WORLD_SIZE", "HYDI_CONTROL_FD"})) {
    facts.launcher = "mpirun";  // also when mpirun itself uses srun to reach the nodes
    count_tasks(variable, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 0, facts);
    return facts;
  }
  const bool is_srun_step =
      is_any_set(variable, {"SLURM_STEP_ID", "SLURM_STEPID"}) && variable("SLURM_PROCID") != nullptr;
  if (is_srun_step) count_tasks(variable, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 0, facts);
  if (!is_any_set(variable, {"PMIX_RANK", "PMI_RANK"})) return facts;
  facts.launcher = is_srun_step ? "srun" : "mpirun";
  count_tasks(variable, {"PMI_SIZE"}, 0, facts);
  count_tasks(variable, {"PMIX_RANK", "PMI_RANK"}, 1, facts);
  return facts;
}

std::vector<std::string> launch_problems(const LaunchFacts& facts, int threads, bool allow_oversubscribe) {
  std::vector<std::string> problems;
  if (facts.tasks_of_job > 1 && facts.world_size == 1)
    problems.push_back(fmt::format(
        "the launcher started {} tasks or more ({}), but for MPI each of them is a world of one: they would "
        "all train the same run; start them with srun --mpi=pmix, or with the mpirun of "
        "the MPI library that `muster info` names",
        facts.tasks_of_job, facts.tasks_said_by));
  if (threads > facts.cores_allowed && !allow_oversubscribe)
    problems.push_back(fmt::format(
        "device.threads is {}, but this rank may use {} core{} only; give each rank more with mpirun --map-by "
        "slot:PE={} "
        "(or --bind-to none), or srun --cpus-per-task={}, or set device.threads: {}",
        threads, facts.cores_allowed, facts.cores_allowed == 1 ? "" : "s", threads, threads, facts.cores_allowed));
  if (facts.ranks_on_node * threads > facts.cores_of_node && !allow_oversubscribe)
    problems.push_back(
        fmt::format("{} ranks x {} thread{} on a node with {} usable core{}: they would fight for the cores; start "
                    "fewer ranks, set "
                    "device.threads, or allow it with --set parallel.allow_oversubscribe=true",
                    facts.ranks_on_node, threads, threads == 1 ? "" : "s", facts.cores_of_node,
                    facts.cores_of_node == 1 ? "" : "s"));
  return problems;
}

void check_launch(Session& session, int threads_per_rank, bool allow_oversubscribe) {
  const auto mine = launch_problems(session.launch(), threads_per_rank, allow_oversubscribe);
  const auto all = session.world().all_gather_text(join(mine, "\n"), "launch check");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw Error(ExitCode::launch,
                fmt::format("rank {} on {}: {}", rank, session.world().host(static_cast<int>(rank)), all[rank]));
  }
}

}  // namespace muster::comm
