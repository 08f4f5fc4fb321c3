// Each thing that can be wrong is found where it is, told with its mend, and not told where all is well.
#include "doctor/findings.hpp"

#include <muster/base/error.hpp>

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>

namespace muster::doctor {
namespace {

RankFacts rank_on(const std::string& host, std::vector<int> cpus) {
  RankFacts facts;
  facts.host = host;
  facts.build = "b1";
  facts.library = "Open MPI 4.1.4";
  facts.launcher = "mpirun";
  facts.cpu = "CPU X";
  facts.cpus = std::move(cpus);
  facts.cpus_of_host = 4;
  facts.memory_bytes = std::uint64_t{8} << 30;
  facts.shared_free_bytes = std::uint64_t{4} << 30;
  facts.open_files = 4096;
  facts.interfaces = {{"eth0", host == "h1" ? "10.0.0.1" : "10.0.0.2", 24, 1.25e9}};
  return facts;
}

/// Two hosts of four cores, two ranks on each with two cores each.
std::vector<RankFacts> healthy() {
  return {rank_on("h1", {0, 1}), rank_on("h1", {2, 3}), rank_on("h2", {0, 1}), rank_on("h2", {2, 3})};
}

void expect_one(const std::vector<Finding>& findings, bool stops_runs, const std::string& what,
                const std::string& mend) {
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].stops_runs, stops_runs);
  EXPECT_NE(findings[0].what.find(what), std::string::npos) << findings[0].what;
  EXPECT_NE(findings[0].mend.find(mend), std::string::npos) << findings[0].mend;
}

TEST(Findings, NoneOfHealthyRanks) { EXPECT_TRUE(check_ranks(healthy()).empty()); }

TEST(Findings, AnotherBuildOnOneHost) {
  auto ranks = healthy();
  ranks[2].build = ranks[3].build = "b2";
  expect_one(check_ranks(ranks), true, "rank 2 on h2 runs another build than rank 0: b2, Open MPI 4.1.4 instead of b1",
             "same file");
}

TEST(Findings, ALaunchProblemIsToldOnce) {
  auto ranks = healthy();
  for (auto& rank : ranks) rank.launch_problems = {"the launcher started 4 tasks"};
  expect_one(check_ranks(ranks), true, "rank 0 on h1: the launcher started 4 tasks", "");
}

TEST(Findings, RanksBoundToTheSameCores) {
  auto ranks = healthy();
  ranks[3].cpus = {0, 1};
  expect_one(check_ranks(ranks), false, "on h2 ranks 2 and 3 share 2 cores while 2 of 4 stand idle", "--bind-to core");
}

TEST(Findings, UnboundRanksShareCoresOnPurpose) {
  auto ranks = healthy();
  for (auto& rank : ranks) rank.cpus = {0, 1, 2, 3};
  EXPECT_TRUE(check_ranks(ranks).empty());
}

TEST(Findings, AHostThatIsHalfIdle) {
  const std::vector<RankFacts> ranks{rank_on("h1", {0}), rank_on("h1", {1})};
  expect_one(check_ranks(ranks), false, "on h1 ranks 0 and 1 may use 2 of 4 cores", "slot:PE=2");
}

TEST(Findings, LimitsOfAHost) {
  auto ranks = healthy();
  ranks[0].shared_free_bytes = ranks[1].shared_free_bytes = std::uint64_t{64} << 20;
  expect_one(check_ranks(ranks), false, "h1 has 64 MiB of shared memory left, in which the gradients of 2 ranks meet",
             "--shm-size");
  ranks = healthy();
  ranks[2].open_files = 256;
  expect_one(check_ranks(ranks), false, "a process on h2 may open 256 files only", "ulimit -n");
  ranks = healthy();
  ranks[0].ptrace_scope = 1;
  expect_one(check_ranks(ranks), false, "kernel.yama.ptrace_scope=1", "sysctl");
}

TEST(Findings, HostsThatAreNotAlike) {
  auto ranks = healthy();
  ranks[2].cpu = ranks[3].cpu = "CPU Y";
  expect_one(check_ranks(ranks), false, "CPU X on h1, CPU Y on h2", "parameter_server");
  ranks = healthy();
  ranks[3].clock_s = 90;
  expect_one(check_ranks(ranks), false, "the clocks of h1 and h2 differ by 1 m 30 s", "chrony");
}

TEST(Findings, AnInterfaceThatLeadsEachHostToItself) {
  auto ranks = healthy();
  for (auto& rank : ranks) rank.interfaces.push_back({"docker0", "172.17.0.1", 16, 0});
  expect_one(check_ranks(ranks), false, "172.17.0.1 (docker0) is an address of h1 and of h2",
             "--mca btl_tcp_if_exclude lo,docker0 --mca oob_tcp_if_exclude lo,docker0");
}

TEST(Findings, AClassOfLinksBelowItsCard) {
  LinkFacts links;
  links.between = {{0, 2, 20e-6, 1.1e9}};  // the card states 1.25 GB/s
  EXPECT_TRUE(check_links(links, healthy()).empty());
  links.between[0].bytes_per_s = 0.12e9;
  expect_one(check_links(links, healthy()), false,
             "messages between h1 and h2 reach 0.12 GB/s, but eth0 states 1.2 GB/s", "btl_tcp_if_include eth0");
  auto silent = healthy();
  for (auto& rank : silent) rank.interfaces[0].bytes_per_s = 0;
  EXPECT_TRUE(check_links(links, silent).empty());
}

TEST(Findings, AReductionFarBelowMemory) {
  LinkFacts links;
  links.copy_bytes_per_s = 10e9;
  links.within = {{0, 1, 1e-6, 5e9}};
  links.reductions = {{"shared memory, 2 ranks", 16 << 20, 3e-3, 5e9}};
  EXPECT_TRUE(check_links(links, healthy()).empty());
  links.reductions[0].bytes_per_s = 0.5e9;
  expect_one(check_links(links, healthy()), false, "moves 0.5 GB/s, where copies of memory move 10 GB/s",
             "one rank per core");
}

TEST(Findings, Directories) {
  DirectoryFacts good;
  good.path = "/scratch";
  good.write_bytes_per_s = 500e6;
  good.sync_s = 1e-3;
  good.has_locks = good.reads_hdf5 = true;
  EXPECT_TRUE(check_directory(good).empty());
  auto bad = good;
  bad.problem = "Permission denied";
  expect_one(check_directory(bad), true, "nothing can be written to /scratch: Permission denied", "run.directory");
  bad = good;
  bad.has_locks = false;
  expect_one(check_directory(bad), false, "/scratch keeps no locks", "-o flock");
  bad = good;
  bad.reads_hdf5 = false;
  expect_one(check_directory(bad), true, "does not read back", "HDF5_USE_FILE_LOCKING=FALSE");
  bad = good;
  bad.write_bytes_per_s = 20e6;
  expect_one(check_directory(bad), false, "/scratch takes 20 MB/s", "checkpoint.every");
  bad = good;
  bad.sync_s = 0.5;
  expect_one(check_directory(bad), false, "a small file in /scratch needs 500 ms", "checkpoint.every");
}

TEST(Directories, AreMeasuredAndLeftAsTheyWere) {
  const auto folder = std::filesystem::temp_directory_path() / ("doctor_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const DirectoryFacts facts = measure_directory(folder.string());
  EXPECT_EQ(facts.problem, "");
  EXPECT_TRUE(facts.has_locks);
  EXPECT_TRUE(facts.reads_hdf5);
  EXPECT_GT(facts.write_bytes_per_s, 0);
  EXPECT_GT(facts.sync_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  EXPECT_EQ(measure_directory(folder.string()).problem, "No such file or directory");
}

TEST(Slurm, PluginsInEveryWording) {
  const std::vector<std::string> expected{"cray_shasta", "none", "pmi2", "pmix", "pmix_v4"};
  EXPECT_EQ(
      plugins_in("srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pmi2\nsrun: pmix\nsrun: pmix_v4\n"),
      expected);
  EXPECT_EQ(plugins_in("MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\n"
                       "specific pmix plugin versions available: pmix_v4\n"),
            expected);
  EXPECT_TRUE(plugins_in("srun: fatal: Could not establish a configuration source\n").empty());
}

TEST(Findings, ASlurmWithoutPmix) {
  EXPECT_TRUE(check_slurm({}, 4).empty());
  EXPECT_TRUE(check_slurm({true, {"none", "pmix_v4"}}, 4).empty());
  expect_one(check_slurm({true, {"none", "pmi2"}}, 4), false, "no plug-in for PMIx (none, pmi2 only)", "mpirun inside");
}

TEST(RankFacts, SurviveTheirText) {
  RankFacts facts = rank_on("h1", {0, 2, 3});
  facts.launch_problems = {"one", "two\nlines"};
  facts.ptrace_scope = 1;
  facts.clock_s = 1.5e9;
  EXPECT_EQ(from_text(to_text(facts)), facts);
  EXPECT_THROW(from_text("{}"), Error);
}

}  // namespace
}  // namespace muster::doctor
