// The account of a sweep: metrics, results, tables, claims.
#include "train/sweep/claims.hpp"
#include "train/sweep/plan_file.hpp"
#include "train/sweep/results.hpp"
#include "unit/message_of.hpp"
#include "unit/train/scratch.hpp"

#include <muster/base/file.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace muster::train {
namespace {

using test::Scratch;

ExitCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::done;
}

config::Sweep plan_of(std::vector<std::vector<std::string>> values, const std::string& metric) {
  config::Sweep plan;
  plan.keys = {"optimizer.lr", "model.layers"};
  plan.values = std::move(values);
  plan.options.metric = metric;
  return plan;
}

Trial done(double value) { return {TrialResult{ExitCode::done, "", 1.5}, {value, 60}}; }

TEST(SweepResults, TheLastValueOfAMetric) {
  const Scratch scratch;
  write_file_atomic(scratch / "metrics.jsonl",
                    "{\"step\":10,\"loss\":3.5,\"accuracy\":0.5}\n"
                    "{\"step\":10,\"split\":\"test\",\"loss\":4.5}\n"
                    "{\"step\":20,\"loss\":2.5,\"accuracy\":null,\"accuracy_text\":\"nan\"}\n"
                    "{\"step\":30,\"lo");
  EXPECT_EQ(read_metric(scratch.path(), "loss").value, 2.5);
  EXPECT_EQ(read_metric(scratch.path(), "loss").step, 20);
  EXPECT_EQ(read_metric(scratch.path(), "test.loss").value, 4.5);
  EXPECT_EQ(code_of([&] { read_metric(scratch.path(), "accuracy"); }), ExitCode::diverged);
  EXPECT_EQ(code_of([&] { read_metric(scratch.path(), "test.accuracy"); }), ExitCode::usage);
  EXPECT_EQ(code_of([&] { read_metric(scratch / "none", "loss"); }), ExitCode::checkpoint);
}

TEST(SweepResults, AResultComesBackAsItWas) {
  const Scratch scratch;
  EXPECT_FALSE(read_result(scratch.path()));
  write_result(scratch.path(), {ExitCode::done, "", 2.5}, 0);
  EXPECT_EQ(read_result(scratch.path())->code, ExitCode::done);
  EXPECT_EQ(read_result(scratch.path())->seconds, 2.5);
  write_result(scratch.path(), {ExitCode::diverged, "two\nlines", 2}, 1);
  EXPECT_EQ(read_result(scratch.path())->code, ExitCode::diverged);
  EXPECT_EQ(read_result(scratch.path())->message, "two lines");
  EXPECT_EQ(test::names_in(scratch.path()), std::vector<std::string>{"result.json"});
  write_file_atomic(scratch / "result.json", "{}");
  EXPECT_EQ(code_of([&] { read_result(scratch.path()); }), ExitCode::checkpoint);
}

TEST(SweepResults, ATrialIsScoredByItsMetricsOnly) {
  const Scratch scratch;
  EXPECT_FALSE(read_trial(scratch.path(), "loss").result);
  write_result(scratch.path(), {ExitCode::done, "", 1}, 0);
  write_file_atomic(scratch / "metrics.jsonl", "{\"step\":10,\"loss\":3.5,\"accuracy\":null}\n");
  EXPECT_EQ(read_trial(scratch.path(), "loss").metric.value, 3.5);
  EXPECT_EQ(read_trial(scratch.path(), "loss").metric.step, 10);
  EXPECT_EQ(read_trial(scratch.path(), "accuracy").result->code, ExitCode::diverged);
  EXPECT_EQ(read_trial(scratch.path(), "test.loss").result->code, ExitCode::usage);
  write_result(scratch.path(), {ExitCode::data, "no data", 1}, 0);
  EXPECT_EQ(read_trial(scratch.path(), "loss").result->code, ExitCode::data);
}

TEST(SweepMetric, NamesFollowFromTheConfig) {
  Config config;
  config.model.loss.kind = device::LossSpec::Kind::softmax_cross_entropy;
  EXPECT_EQ(metric_problem(config, "loss"), "");
  EXPECT_EQ(metric_problem(config, "accuracy"), "");
  EXPECT_EQ(metric_problem(config, "step_ms_p20"), "");
  EXPECT_NE(metric_problem(config, "los").find("did you mean 'loss'"), std::string::npos);
  EXPECT_NE(metric_problem(config, "test.loss").find("needs data.test"), std::string::npos);
  EXPECT_NE(metric_problem(config, "grad_norm"), "");
  EXPECT_NE(metric_problem(config, "staleness_max"), "");
  config.data.synthetic.samples = 10;
  EXPECT_NE(metric_problem(config, "test.loss"), "");
  config.data.synthetic.test_samples = 10;
  config.optimizer.clip_norm = 1;
  config.model.top_k = 5;
  for (const char* name : {"test.loss", "test.accuracy", "test.top_k_accuracy", "grad_norm"})
    EXPECT_EQ(metric_problem(config, name), "") << name;
  EXPECT_NE(metric_problem(config, "test.lr"), "");
  config.parallel.strategy = "parameter_server";
  EXPECT_EQ(metric_problem(config, "staleness_max"), "");
  EXPECT_NE(metric_problem(config, "grad_norm"), "");
  config.model.loss.kind = device::LossSpec::Kind::binary_cross_entropy;
  EXPECT_NE(metric_problem(config, "test.accuracy"), "");
}

TEST(SweepResults, TablesQuoteAndRank) {
  const auto plan = plan_of({{"1", "[a, \"b\"]"}, {"2", "x"}, {"3", "x"}, {"4", "x"}, {"5", "x"}}, "test.accuracy");
  const std::vector<Trial> results{
      done(0.5), {TrialResult{ExitCode::data, "no, data", 0}, {}}, done(0.75), {}, done(0.5)};
  EXPECT_EQ(results_csv(plan, results),
            "trial,state,test.accuracy,step,seconds,exit_code,optimizer.lr,model.layers,message\n"
            "0,done,0.5,60,1.500,0,1,\"[a, \"\"b\"\"]\",\n"
            "1,failed,,,0.000,3,2,x,\"no, data\"\n"
            "2,done,0.75,60,1.500,0,3,x,\n"
            "3,unfinished,,,,,4,x,\n"
            "4,done,0.5,60,1.500,0,5,x,\n");
  const auto order = [](const std::vector<std::string>& lines) {
    std::string trials;
    for (std::size_t i = 1; i < lines.size(); ++i) trials += lines[i].substr(11, 1);
    return trials;
  };
  EXPECT_EQ(order(ranking(plan, results)), "2041");
  EXPECT_EQ(order(ranking(plan_of(plan.values, "test.loss"), results)), "0421");
}

std::string refusal(const std::filesystem::path& file, const config::Sweep& plan) {
  return test::message_of([&] { keep_plan(file, plan); });
}

TEST(SweepPlan, MoreTrialsMayFollowThoseThere) {
  const Scratch scratch;
  const auto plan = [](const std::string& values, const std::string& metric = "loss",
                       const std::string& directory = "d", const std::string& seed = "1") {
    return config::load_sweep_text(
        "run: {name: r, steps: 2, directory: " + directory + ", seed: " + seed +
            "}\ndata: {synthetic: {samples: 8, classes: 3, shape: [4]}, batch: 4}\nmodel: {input: [4], layers: "
            "[{dense: "
            "{units: 3}}], loss: softmax_cross_entropy}\noptimizer: {sgd: {lr: 0.1}}\nsweep: {metric: " +
            metric + ", keys: {optimizer.lr: " + values + "}}\n",
        "c.yaml", {{}, false});
  };
  const auto file = scratch / "sweep.yaml";
  EXPECT_EQ(refusal(file, plan("[0.1, 0.2]")), "no error");
  EXPECT_EQ(refusal(file, plan("[0.1, 0.2]", "accuracy", "/elsewhere")), "no error");
  EXPECT_EQ(refusal(file, plan("[0.1, 0.2, 0.3]")), "no error");
  EXPECT_EQ(refusal(file, plan("[0.1]")), "no error");
  EXPECT_NE(refusal(file, plan("[0.1, 0.2, 0.4]"))
                .find("'# trial 2: optimizer.lr=0.3', this one '# trial 2: optimizer.lr=0.4'"),
            std::string::npos);
  EXPECT_NE(refusal(file, plan("[0.1, 0.2]", "loss", "d", "2")).find("seed: 2"), std::string::npos);
}

TEST(SweepClaims, OneHolderAtATime) {
  const Scratch scratch;
  auto first = try_claim(scratch / "trial-0000");
  ASSERT_TRUE(first);
  EXPECT_FALSE(try_claim(scratch / "trial-0000"));
  EXPECT_TRUE(try_claim(scratch / "trial-0001"));
  EXPECT_EQ(code_of([&] { wait_for_claim(scratch / "trial-0000", 0.05); }), ExitCode::checkpoint);
  first.reset();
  EXPECT_TRUE(try_claim(scratch / "trial-0000"));
  write_file_atomic(scratch / "file", "");
  EXPECT_EQ(code_of([&] { try_claim(scratch / "file"); }), ExitCode::checkpoint);
}

}  // namespace
}  // namespace muster::train
