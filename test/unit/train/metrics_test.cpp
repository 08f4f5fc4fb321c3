// metrics.jsonl: order, round trip, what a resume drops; and the crash file.
#include "unit/train/scratch.hpp"
#include "unit/train/states.hpp"

#include <muster/train/crash_file.hpp>
#include <muster/train/metrics.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace muster::train {
namespace {

using test::bytes_of;
using test::checkpoint_error;
using test::put_bytes;
using test::Scratch;

TEST(Metrics, OneObjectPerLineInTheOrderOfTheKeys) {
  const Scratch scratch;
  MetricsWriter writer(scratch / "m", -1);
  writer.write({{"step", std::int64_t{3}}, {"loss", 0.5}, {"split", std::string("te\"st\n")}});
  writer.write({{"loss", 2.0}, {"step", std::int64_t{-4}}});
  writer.write({});
  EXPECT_EQ(bytes_of(scratch / "m"),
            "{\"step\":3,\"loss\":0.5,\"split\":\"te\\\"st\\n\"}\n{\"loss\":2.0,\"step\":-4}\n{}\n");
}

TEST(Metrics, NumbersKeepTheirBits) {
  const Scratch scratch;
  MetricsWriter writer(scratch / "m", -1);
  for (double value : {0.1, 1.0 / 3.0, 1e-300, 5e-324, std::numeric_limits<double>::max(), -0.0, 123456789.123456789,
                       std::nextafter(1.0, 2.0)}) {
    writer.write({{"x", value}});
    const std::string text = bytes_of(scratch / "m");
    const std::string line = text.substr(text.rfind('\n', text.size() - 2) + 1);
    const double back = nlohmann::json::parse(line).at("x").get<double>();
    EXPECT_EQ(back, value) << line;
    EXPECT_EQ(std::signbit(back), std::signbit(value)) << line;
  }
  writer.write({{"n", std::numeric_limits<std::int64_t>::max()}});
  EXPECT_NE(bytes_of(scratch / "m").find("9223372036854775807"), std::string::npos);
}

TEST(Metrics, WhatIsNoNumberIsNullAndNamed) {
  const Scratch scratch;
  MetricsWriter writer(scratch / "m", -1);
  const double inf = std::numeric_limits<double>::infinity();
  writer.write({{"a", std::nan("")}, {"b", inf}, {"c", -inf}});
  EXPECT_EQ(bytes_of(scratch / "m"),
            "{\"a\":null,\"a_text\":\"nan\",\"b\":null,\"b_text\":\"inf\",\"c\":null,\"c_text\":\"-inf\"}\n");
}

TEST(Metrics, AResumeDropsWhatItWillRepeat) {
  const Scratch scratch;
  put_bytes(scratch / "m",
            "{\"step\":10,\"loss\":1.0}\n{\"step\":20,\"loss\":0.5}\n{\"step\":20,\"split\":\"test\"}\n{\"step\":30,"
            "\"loss\":0.2}\n{\"step\":40,\"lo");
  MetricsWriter writer(scratch / "m", 20);
  writer.write({{"step", std::int64_t{30}}});
  EXPECT_EQ(
      bytes_of(scratch / "m"),
      "{\"step\":10,\"loss\":1.0}\n{\"step\":20,\"loss\":0.5}\n{\"step\":20,\"split\":\"test\"}\n{\"step\":30}\n");
}

TEST(Metrics, AResumeDropsWhatIsNoMetric) {
  const Scratch scratch;
  put_bytes(scratch / "m", "\n[1]\n{}\n{\"step\":\"1\"}\n{\"step\":1.5}\nnull\n{\"step\":1}");
  MetricsWriter writer(scratch / "m", 1);
  EXPECT_EQ(bytes_of(scratch / "m"), "{\"step\":1}\n");
}

TEST(Metrics, AFreshRunAndAResumeWithoutAFile) {
  const Scratch scratch;
  MetricsWriter(scratch / "a", -1).write({{"step", std::int64_t{1}}});
  MetricsWriter(scratch / "b", 0).write({{"step", std::int64_t{1}}});
  EXPECT_EQ(bytes_of(scratch / "a"), "{\"step\":1}\n");
  EXPECT_EQ(bytes_of(scratch / "b"), "{\"step\":1}\n");
}

TEST(Metrics, OtherRanksWriteNothing) {
  MetricsWriter silent;
  silent.write({{"step", std::int64_t{1}}});
  const Scratch scratch;
  MetricsWriter moved;
  moved = MetricsWriter(scratch / "m", -1);
  moved.write({{"step", std::int64_t{1}}});
  MetricsWriter last(std::move(moved));
  last.write({{"step", std::int64_t{2}}});
  EXPECT_EQ(bytes_of(scratch / "m"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(Metrics, Errors) {
  const Scratch scratch;
  EXPECT_NE(checkpoint_error([&] {
              MetricsWriter(scratch / "no/folder", -1);
            }).find("cannot open " + (scratch / "no/folder").string()),
            std::string::npos);
  MetricsWriter full("/dev/full", -1);
  EXPECT_EQ(checkpoint_error([&] {
              full.write({{"step", std::int64_t{1}}});
            }),
            "cannot append to /dev/full: No space left on device; free disk space");
}

TEST(CrashFile, SaysWhoAndWhy) {
  const Scratch run;
  write_crash_file(run.path(), 3, 6, "lost \"rank\" 1");
  const auto report = nlohmann::json::parse(bytes_of(run / "errors/rank-3.json"));
  EXPECT_EQ(report.at("rank"), 3);
  EXPECT_EQ(report.at("exit_code"), 6);
  EXPECT_EQ(report.at("message"), "lost \"rank\" 1");
  EXPECT_TRUE(report.at("where").is_string());
}

TEST(CrashFile, NeverThrows) {
  const Scratch run;
  write_crash_file(run / "absent", 0, 70, "x");
  EXPECT_FALSE(std::filesystem::exists(run / "absent"));
  put_bytes(run / "errors", "a file in the way");
  write_crash_file(run.path(), 0, 70, "x");
  std::filesystem::remove(run / "errors");
  write_crash_file(run.path(), 0, 70, "not UTF-8: \xff");
  EXPECT_TRUE(nlohmann::json::accept(bytes_of(run / "errors/rank-0.json")));
}

}  // namespace
}  // namespace muster::train
