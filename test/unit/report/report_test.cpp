// Reports: what is read from a run's directory, where points land in a diagram, what the page holds.
#include "unit/message_of.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/report/page.hpp>
#include <muster/report/plot.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace muster::report {
namespace {

using test::message_of;

/// A run directory with these files, in the scratch folder of this test.
std::filesystem::path run_directory(const std::string& name, const std::string& metrics, const std::string& config) {
  const auto directory = std::filesystem::path(testing::TempDir()) / ("report_" + name);
  std::filesystem::create_directories(directory);
  write_file_atomic(directory / "metrics.jsonl", metrics);
  write_file_atomic(directory / "config.yaml", config);
  return directory;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Report, ReadsColumnsTestLinesAndTheHistogram) {
  const report::Run run = load_run(run_directory("columns",
                                                 R"({"step":10,"loss":2.5,"staleness_histogram":"0:3 2:1"}
{"step":10,"split":"test","loss":3,"accuracy":0.5}
{"step":20,"loss":null,"loss_text":"nan","staleness_histogram":"2:4"}
{"step":30,"loss":1.5,"staleness_)",
                                                 "run: {name: x}\n"));
  ASSERT_EQ(run.column("loss").size(), 1u);  // NaN is a gap, the last line was cut off
  EXPECT_EQ(run.column("loss")[0].x, 10);
  EXPECT_EQ(run.column("loss")[0].y, 2.5);
  ASSERT_EQ(run.column("test.accuracy").size(), 1u);
  EXPECT_EQ(run.column("test.accuracy")[0].y, 0.5);
  EXPECT_EQ(run.staleness, (std::map<std::int64_t, std::int64_t>{{0, 3}, {2, 5}}));
  EXPECT_TRUE(run.column("no such thing").empty());
}

TEST(Report, NamesTheLineThatIsNoMetrics) {
  const auto directory = run_directory("bad", "{\"step\":1}\nnonsense\n{\"step\":2}\n", "");
  EXPECT_NE(message_of([&] { load_run(directory); }).find("metrics.jsonl:2: expected a JSON object"),
            std::string::npos);
  EXPECT_NE(message_of([] { load_run("/no/such/run"); }).find("/no/such/run: no metrics.jsonl"), std::string::npos);
}

TEST(Report, FlattensSettings) {
  const auto settings = flatten_settings(
      "run:\n  name: a\n  seed: 3\ndevice: {kind: cpu}\nmodel:\n  input: [4]\n  layers:\n    - dense:\n        units: "
      "3\n"
      "    - relu\n  loss: mse\noptimizer:\n  sgd:\n    lr: 0.1\n");
  const std::map<std::string, std::string> expected{{"run.name", "a"},
                                                    {"run.seed", "3"},
                                                    {"device", "{kind: cpu}"},
                                                    {"model.input", "[4]"},
                                                    {"model.layers", "- dense:\n    units: 3\n- relu"},
                                                    {"model.loss", "mse"},
                                                    {"optimizer.sgd.lr", "0.1"}};
  EXPECT_EQ(settings, expected);
}

TEST(Report, FindsSettingsThatDiffer) {
  report::Run a, b;
  a.settings = {{"run.seed", "1"}, {"data.batch", "8"}, {"only.here", "x"}};
  b.settings = {{"run.seed", "2"}, {"data.batch", "8"}};
  EXPECT_EQ(differing_settings({a, b}), (std::vector<std::string>{"only.here", "run.seed"}));
  EXPECT_TRUE(differing_settings({a, a}).empty());
}

TEST(Plot, TicksAreRound) {
  EXPECT_EQ(ticks(0, 1, 5).size(), 6u);
  EXPECT_NEAR(ticks(0, 1, 5)[1], 0.2, 1e-12);
  EXPECT_EQ(ticks(3, 97, 5), (std::vector<double>{20, 40, 60, 80}));
  EXPECT_EQ(ticks(-4, 6, 4), (std::vector<double>{-4, -2, 0, 2, 4, 6}));
  EXPECT_EQ(ticks(2, 2, 5), std::vector<double>{2});
}

TEST(Plot, TicksEndWhereNeighboursAreAllThereIs) {
  const double next = std::nextafter(0.1, 1);
  for (const auto& [low, high] :
       {std::pair{0.1, next}, {0.0, 5e-324}, {-1e308, 1e308}, {1e300, 1.0000000000000002e300}}) {
    const auto found = ticks(low, high, 5);
    ASSERT_FALSE(found.empty());
    EXPECT_LE(found.size(), 11u);
    EXPECT_TRUE(std::ranges::is_sorted(found, std::less_equal<>()) || found.size() == 1);
  }
}

// The room of a flat line: 5 % of its value on each side, so both points are at mid-height, (34 + 238) / 2.
TEST(Plot, ALineFlatWithinRoundingIsDrawnFlat) {
  const Plot plot{"t", "step", false, 1, {{"a", 0, false, {{0, 0.1}, {10, std::nextafter(0.1, 1)}}}}};
  EXPECT_TRUE(has(line_plot(plot), "d='M62.0 136.0L546.0 136.0'")) << line_plot(plot);
}

// Drawn in 560 x 280 with 62 left, 14 right, 34 above, 42 below: x from 62 to 546, y from 238 (0) to 34 (1.05).
TEST(Plot, PutsPointsWhereTheyBelong) {
  const std::string svg = line_plot({"t", "step", false, 1, {{"a", 3, false, {{0, 0}, {10, 1}}}}});
  EXPECT_TRUE(has(svg, "class='curve c3' d='M62.0 238.0L546.0 43.7'")) << svg;
  // tenfold steps are equally far apart on the logarithmic axis: -1 to 1 and 0.1 of room on each side
  const std::string log = line_plot({"t", "step", true, 1, {{"a", 0, true, {{0, 0.1}, {5, 1}, {10, 10}, {11, -1}}}}});
  for (const char* tick : {">0.1<", ">1<", ">10<"}) EXPECT_TRUE(has(log, tick)) << log;
  EXPECT_FALSE(has(log, ">-0<"));
  EXPECT_TRUE(has(log, "class='curve c0 dashed' d='M62.0 228.7L304.0 136.0L546.0 43.3'")) << log;
}

TEST(Plot, IsEmptyWithoutACurve) {
  EXPECT_EQ(line_plot({"t", "step", false, 1, {{"a", 0, false, {{0, 0}}}, {"b", 1, false, {}}}}), "");
  EXPECT_EQ(line_plot({"t", "step", false, 1, {{"a", 0, false, {{0, 0}, {1, 0}}}}}), "");
  EXPECT_EQ(bar_plot("t", "x", {}), "");
}

TEST(Plot, ThinningKeepsTheExtremes) {
  std::vector<Point> points;
  for (int i = 0; i < 10000; ++i) points.push_back({double(i), i == 5003 ? 100.0 : i == 7001 ? -100.0 : 0.0});
  const auto kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 100u);
  EXPECT_TRUE(std::ranges::any_of(kept, [](const Point& p) { return p.x == 5003 && p.y == 100; }));
  EXPECT_TRUE(std::ranges::any_of(kept, [](const Point& p) { return p.x == 7001 && p.y == -100; }));
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
}

TEST(Page, HoldsTheFiguresAndNothingFromOutside) {
  report::Run a, b;
  a.name = "runs/a<1>";
  a.columns["loss"] = {{10, 2}, {20, 1}};
  a.columns["test.accuracy"] = {{10, 0.9}, {20, 0.8}};
  a.settings = {{"run.seed", "1"}};
  b = a;
  b.name = "runs/b";
  b.settings["run.seed"] = "2";
  const std::string html = page({a, b});
  EXPECT_TRUE(has(html, "runs/a&lt;1&gt;"));
  EXPECT_FALSE(has(html, "a<1>"));
  EXPECT_TRUE(has(html, "90.00 at step 10"));
  EXPECT_TRUE(has(html, "<td>run.seed</td><td><pre>1</pre></td><td><pre>2</pre></td>"));
  for (const char* outside : {"http:", "https:", "<script", "src=", "@import", "url("})
    EXPECT_FALSE(has(html, outside));
}

}  // namespace
}  // namespace muster::report
