// What the environment says about a launch, and what is wrong with one.
#include "comm/launch.hpp"

#include <gtest/gtest.h>

#include <map>

namespace muster::comm {
namespace {

LaunchFacts facts_of(const std::map<std::string, std::string>& variables) {
  return facts_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchFacts, ReadTheLauncher) {
  EXPECT_EQ(facts_of({}).launcher, "none");
  EXPECT_EQ(facts_of({}).tasks_of_job, 0);
  EXPECT_EQ(facts_of({{"OMPI_COMM_WORLD_SIZE", "4"}}).launcher, "mpirun");
  const std::map<std::string, std::string> step{
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_EQ(facts_of(step).launcher, "none");
  EXPECT_EQ(facts_of(step).tasks_of_job, 4);
  auto with_pmix = step;
  with_pmix["PMIX_RANK"] = "1";
  EXPECT_EQ(facts_of(with_pmix).launcher, "srun");
  // mpirun inside a Slurm job starts its daemons with srun: their step is not the job's ranks.
  auto with_mpirun = with_pmix;
  with_mpirun["OMPI_COMM_WORLD_SIZE"] = "1";
  EXPECT_EQ(facts_of(with_mpirun).launcher, "mpirun");
  EXPECT_EQ(facts_of(with_mpirun).tasks_of_job, 1);
}

TEST(LaunchFacts, EveryLauncherSaysHowManyTasksItStarted) {
  const std::vector<std::pair<std::map<std::string, std::string>, int>> cases{
      {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}, 4},
      {{{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}, 3},                            // MPICH, Intel MPI
      {{{"PMI_SIZE", "5"}, {"PMI_RANK", "0"}, {"HYDI_CONTROL_FD", "7"}}, 5},  // their Hydra
      {{{"PMIX_RANK", "2"}}, 3},                                              // PMIx states no size; a rank is proof
      {{{"PMIX_RANK", "0"}}, 1},
      {{{"PMI_SIZE", "6"}}, 0},  // inherited from somewhere: no rank, no launch
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"PMI_SIZE", "8"}, {"PMI_RANK", "1"}}, 8},
  };
  for (const auto& [variables, tasks] : cases) {
    LaunchFacts facts = facts_of(variables);
    EXPECT_EQ(facts.tasks_of_job, tasks) << variables.begin()->first;
    facts.world_size = 1;
    EXPECT_EQ(launch_problems(facts, 1, false).size(), tasks > 1 ? 1u : 0u) << variables.begin()->first;
    facts.world_size = tasks;
    EXPECT_TRUE(launch_problems(facts, 1, true).empty());
  }
}

TEST(LaunchFacts, ABatchScriptsOwnCommandIsNoLaunch) {
  EXPECT_EQ(facts_of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}).tasks_of_job, 0);
}

LaunchFacts fitting() {
  LaunchFacts facts;
  facts.world_size = 4;
  facts.launcher = "mpirun";
  facts.ranks_on_node = 4;
  facts.cores_allowed = 2;
  facts.cores_of_node = 8;
  return facts;
}

std::string only_problem(const LaunchFacts& facts, int threads, bool allow = false) {
  const auto problems = launch_problems(facts, threads, allow);
  return problems.size() == 1 ? problems[0] : std::to_string(problems.size()) + " problems";
}

TEST(LaunchProblems, NoneWhereRanksFit) {
  EXPECT_TRUE(launch_problems(fitting(), 1, false).empty());
  EXPECT_TRUE(launch_problems(fitting(), 2, false).empty());
}

TEST(LaunchProblems, WorldsOfOneUnderSrun) {
  LaunchFacts facts = fitting();
  facts.world_size = 1;
  facts.ranks_on_node = 1;
  facts.launcher = "none";
  facts.tasks_of_job = 4;
  facts.tasks_said_by = "SLURM_NTASKS=4";
  EXPECT_NE(only_problem(facts, 1).find("(SLURM_NTASKS=4)"), std::string::npos) << only_problem(facts, 1);
  EXPECT_NE(only_problem(facts, 1).find("srun --mpi=pmix"), std::string::npos) << only_problem(facts, 1);
  EXPECT_NE(only_problem(facts, 1).find("4 tasks"), std::string::npos);
  EXPECT_EQ(launch_problems(facts, 1, true).size(), 1u);  // nothing to do with oversubscription
}

TEST(LaunchProblems, MoreThreadsThanTheMaskAllows) {
  LaunchFacts facts = fitting();
  facts.cores_of_node = 64;
  const std::string problem = only_problem(facts, 3);
  for (const char* part :
       {"3", "2 cores", "--map-by slot:PE=3", "--bind-to none", "--cpus-per-task=3", "device.threads"})
    EXPECT_NE(problem.find(part), std::string::npos) << part << " not in: " << problem;
  EXPECT_TRUE(launch_problems(facts, 3, true).empty());
}

TEST(LaunchProblems, MoreRanksTimesThreadsThanCores) {
  LaunchFacts facts = fitting();
  facts.cores_of_node = 7;
  const std::string problem = only_problem(facts, 2);
  for (const char* part : {"4 ranks x 2 threads", "7 usable cores", "parallel.allow_oversubscribe=true"})
    EXPECT_NE(problem.find(part), std::string::npos) << part << " not in: " << problem;
  EXPECT_TRUE(launch_problems(facts, 2, true).empty());
}

}  // namespace
}  // namespace muster::comm
