// The account of a sweep: metrics, results, tables, claims.
#include "train/sweep/claims.hpp"
#include "train/sweep/results.hpp"
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

TrialResult done(double value) { return {ExitCode::done, "", value, 60, 1.5}; }

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
}

TEST(SweepResults, AResultComesBackAsItWas) {
  const Scratch scratch;
  EXPECT_FALSE(read_result(scratch.path()));
  write_result(scratch.path(), done(0.1));
  EXPECT_EQ(read_result(scratch.path())->value, 0.1);
  EXPECT_EQ(read_result(scratch.path())->step, 60);
  write_result(scratch.path(), {ExitCode::diverged, "two\nlines", 0, 0, 2});
  EXPECT_EQ(read_result(scratch.path())->code, ExitCode::diverged);
  EXPECT_EQ(read_result(scratch.path())->message, "two lines");
  write_file_atomic(scratch / "result.json", "{}");
  EXPECT_EQ(code_of([&] { read_result(scratch.path()); }), ExitCode::checkpoint);
}

TEST(SweepResults, TablesQuoteAndRank) {
  const auto plan = plan_of({{"1", "[a, \"b\"]"}, {"2", "x"}, {"3", "x"}, {"4", "x"}, {"5", "x"}}, "test.accuracy");
  const std::vector<std::optional<TrialResult>> results{done(0.5), TrialResult{ExitCode::data, "no, data", 0, 0, 0},
                                                        done(0.75), std::nullopt, done(0.5)};
  EXPECT_EQ(results_csv(plan, results),
            "trial,state,test.accuracy,step,seconds,exit_code,optimizer.lr,model.layers,message\n"
            "0,done,0.5,60,1.500,0,1,\"[a, \"\"b\"\"]\",\n"
            "1,failed,,0,0.000,3,2,x,\"no, data\"\n"
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
