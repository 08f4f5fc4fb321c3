// Texts for a cluster: shell words, durations of Slurm, scripts, and what a TF_CONFIG means.
#include "cli/job_script.hpp"
#include "cli/tf_cluster.hpp"

#include <muster/base/error.hpp>

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

TEST(ShellWord, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(shell_word("configs/a_b-1.yaml"), "configs/a_b-1.yaml");
  EXPECT_EQ(shell_word("optimizer.sgd.lr=0.1"), "optimizer.sgd.lr=0.1");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("optimizer={adam: {lr: 1}}"), "'optimizer={adam: {lr: 1}}'");
}

TEST(SlurmTime, KnowsItsForms) {
  for (const char* good : {"30", "90:00", "02:00:00", "1-00", "2-12:30", "2-12:30:15", "100:00:00"})
    EXPECT_TRUE(is_slurm_time(good)) << good;
  for (const char* bad : {"", "0", "00:00:00", "2 h", "1:60:00", "1:00:00:00", "-1", "1-", "never"})
    EXPECT_FALSE(is_slurm_time(bad)) << bad;
}

JobRequest request() {
  JobRequest request;
  request.name = "resnet";
  request.arguments = {"my configs/r.yaml", "--set", "run.seed=3"};
  request.nodes = 4;
  request.ranks_per_node = 8;
  request.cpus_per_rank = 6;
  request.time = "02:00:00";
  request.made_by = "muster job x";
  return request;
}

TEST(JobScript, OfATraining) {
  EXPECT_EQ(
      job_script(request()),
      "#!/usr/bin/env bash\n"
      "# Made by: muster job x\n"
      "# A run that has checkpoints goes on from them; the state is saved before the time is over: exit code 75.\n"
      "#SBATCH --job-name=resnet\n"
      "#SBATCH --nodes=4\n"
      "#SBATCH --ntasks-per-node=8\n"
      "#SBATCH --cpus-per-task=6\n"
      "#SBATCH --time=02:00:00\n"
      "#SBATCH --signal=B:USR1@60\n"
      "#SBATCH --output=slurm-%j.out\n"
      "#SBATCH --open-mode=append\n"
      "source \"$SLURM_SUBMIT_DIR/jobs/slurm/launch.sh\" || exit 2 # sbatch is to be started in the root of the tree\n"
      "\n"
      "launch srun --mpi=pmix \"$muster\" train 'my configs/r.yaml' --set run.seed=3 --continue\n");
}

TEST(JobScript, GpusPartitionAndAccount) {
  JobRequest asked = request();
  asked.gpus_per_node = 8;
  asked.partition = "gpu";
  asked.account = "project7";
  const std::string text = job_script(asked);
  for (const char* line : {"#SBATCH --gpus-per-node=8\n", "#SBATCH --partition=gpu\n", "#SBATCH --account=project7\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(JobScript, ServersOutliveTheirWorkersAndSweepsGoOnByThemselves) {
  JobRequest asked = request();
  asked.has_servers = true;
  EXPECT_NE(job_script(asked).find("export MUSTER=$muster\n"
                                   "launch \"$SLURM_SUBMIT_DIR/jobs/mpirun/muster-run\" -n \"$SLURM_NTASKS\" --bind-to "
                                   "none --mca osc ^ucx -- \\\n  train 'my configs/r.yaml'"),
            std::string::npos);
  asked = request();
  asked.command = "sweep";
  EXPECT_NE(job_script(asked).find("\"$muster\" sweep 'my configs/r.yaml' --set run.seed=3\n"), std::string::npos);
}

TEST(TfCluster, ServersFirstThenTheChief) {
  const auto cluster = read_tf_cluster(
      R"({"cluster": {"worker": ["w0:2222", "w1:2222"], "chief": ["c:1"], "ps": ["p0:9", "[fe80::1]:9"],
          "evaluator": ["e:1"]}, "task": {"type": "worker", "index": 1}})",
      "TF_CONFIG");
  EXPECT_EQ(host_file(cluster), "p0\nfe80::1\nc\nw0\nw1\n");
  EXPECT_TRUE(cluster.has_evaluator);
  EXPECT_EQ(start_line(cluster, "hosts", "c.yaml"),
            "jobs/mpirun/muster-run -n 5 --hostfile hosts --map-by seq --bind-to none -- train c.yaml");
  EXPECT_NE(parallel_section(cluster).find("  strategy: parameter_server"), std::string::npos);
  EXPECT_NE(parallel_section(cluster).find("  servers: 2\n"), std::string::npos);
}

TEST(TfCluster, WorkersAloneTrainInStep) {
  const auto strategy = [](const std::string& workers) {
    return parallel_section(read_tf_cluster("{\"cluster\": {\"worker\": " + workers + "}}", "f"));
  };
  EXPECT_NE(strategy(R"(["a:1", "b:1"])").find("strategy: multi_worker_mirrored"), std::string::npos);
  EXPECT_NE(strategy(R"(["a:1", "a:2"])").find("strategy: mirrored"), std::string::npos);
}

TEST(TfCluster, SaysWhatIsWrong) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      read_tf_cluster(text, "tf.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_NE(message("{]").find("found no JSON"), std::string::npos);
  EXPECT_NE(message("{\"task\": {}}").find("tf.json: expected {\"cluster\""), std::string::npos);
  EXPECT_NE(message(R"({"cluster": {"wroker": ["a:1"]}})").find("did you mean 'worker'"), std::string::npos);
  EXPECT_NE(message(R"({"cluster": {"worker": "a:1"}})").find("cluster.worker: expected a list"), std::string::npos);
  EXPECT_NE(message(R"({"cluster": {"ps": ["a:1"]}})").find("found none"), std::string::npos);
}

}  // namespace
}  // namespace muster::cli
