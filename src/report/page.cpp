#include <muster/report/page.hpp>

#include <muster/report/plot.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace muster::report {
namespace {

constexpr int colors = 8;

// Colours that the usual kinds of colour blindness keep apart (Okabe and Ito 2008), lighter on the dark page.
constexpr const char* style = R"(
:root { color-scheme: light dark; --page: #ffffff; --text: #1b1f24; --soft: #667080; --line: #e3e7ec; --card: #f8f9fb;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #8a6d00; --c5: #56b4e9; --c6: #5b4fc4; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --text: #e6e9ed; --soft: #98a2b0; --line: #2c323a;
  --card: #1b1f25; --c0: #4ea9dd; --c1: #f08a4b; --c2: #35c79c; --c3: #e5a3c6; --c4: #d9b938; --c5: #8fd0f5;
  --c6: #a79ef5; --c7: #a3acb8; } }
body { margin: 0 auto; max-width: 1200px; padding: 24px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 10px; }
.grid-of-plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px; }
svg { display: block; width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .title { font-size: 14px; font-weight: 600; fill: var(--text); }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.curve { fill: none; stroke-width: 1.7; stroke-linejoin: round; } .dashed { stroke-dasharray: 5 3; }
.bar { fill: var(--c0); } .legend { margin: 8px 0 12px; color: var(--soft); } .legend span { margin-right: 18px; }
.swatch { display: inline-block; width: 22px; height: 0; border-top: 3px solid; margin: 0 6px 4px 0; }
table { border-collapse: collapse; } .wide { overflow-x: auto; } pre { margin: 0; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } td.number { font-variant-numeric: tabular-nums; }
)";

std::string color_rules() {
  std::string rules;
  for (int c = 0; c < colors; ++c)
    rules += fmt::format(
        ".curve.c{0} {{ stroke: var(--c{0}); }} .mark.c{0} {{ fill: var(--c{0}); }} .swatch.c{0} "
        "{{ border-color: var(--c{0}); }}\n",
        c);
  return rules;
}

/// A column of the metrics as a diagram of all runs; with the test split's beside it, dashed.
Plot plot_of(const std::vector<Run>& runs, const std::string& title, const std::string& key) {
  Plot plot;
  plot.title = title;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const int color = static_cast<int>(r) % colors;
    plot.series.push_back({runs[r].name, color, false, runs[r].column(key)});
    plot.series.push_back({runs[r].name + ", test", color, true, runs[r].column("test." + key)});
  }
  return plot;
}

std::string card(const std::string& svg) { return svg.empty() ? "" : fmt::format("<div class='card'>{}</div>\n", svg); }

std::string plots(const std::vector<Run>& runs) {
  struct Kind {
    const char* title;
    const char* key;
    bool is_log;
    double scale;
  };
  const Kind kinds[] = {{"loss", "loss", true, 1},
                        {"accuracy, %", "accuracy", false, 100},
                        {"top-k accuracy, %", "top_k_accuracy", false, 100},
                        {"learning rate", "lr", false, 1},
                        {"samples per second", "samples_per_s", false, 1},
                        {"step time, ms (median)", "step_ms_median", false, 1},
                        {"exposed communication, % of the step", "exposed_comm", false, 100},
                        {"waiting for input, % of the step", "input_stall", false, 100},
                        {"norm of the gradient", "grad_norm", true, 1},
                        {"updates per second", "updates_per_s", false, 1},
                        {"staleness, median", "staleness_p50", false, 1},
                        {"workers gone", "workers_gone", false, 1}};
  std::string html;
  for (const Kind& kind : kinds) {
    Plot plot = plot_of(runs, kind.title, kind.key);
    plot.is_log = kind.is_log;
    plot.scale = kind.scale;
    html += card(line_plot(plot));
  }
  for (const Run& run : runs)
    html += card(bar_plot(runs.size() == 1 ? "updates by staleness" : "updates by staleness: " + run.name,
                          "versions behind", run.staleness));
  return html;
}

std::string legend(const std::vector<Run>& runs) {
  std::string html = "<p class='legend'>";
  for (std::size_t r = 0; r < runs.size(); ++r)
    html += fmt::format("<span><i class='swatch c{}'></i>{}</span>", r % colors, escaped(runs[r].name));
  return html + "<span>dashed: test split</span></p>\n";
}

std::string last_of(const std::vector<Point>& points, double scale, int digits) {
  return points.empty() ? "" : fmt::format("{:.{}f}", scale * points.back().y, digits);
}

std::string best_of(const std::vector<Point>& points, bool is_highest, double scale, int digits) {
  if (points.empty()) return "";
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::y);
  const Point& best = is_highest ? *high : *low;
  return fmt::format("{:.{}f} at step {:.0f}", scale * best.y, digits, best.x);
}

std::string median_of(std::vector<Point> points) {
  if (points.empty()) return "";
  const auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
  std::ranges::nth_element(points, middle, {}, &Point::y);
  return fmt::format("{:.0f}", middle->y);
}

std::string summary(const std::vector<Run>& runs) {
  std::string html =
      "<div class='wide'><table><tr><th>run</th><th>steps</th><th>last loss</th><th>best test loss</th>"
      "<th>best test accuracy, %</th><th>samples/s, median</th></tr>\n";
  for (const Run& run : runs) {
    const auto& loss = run.column("loss");
    html += fmt::format("<tr><td>{}</td>", escaped(run.name));
    for (const std::string& cell :
         {loss.empty() ? std::string() : fmt::format("{:.0f}", loss.back().x), last_of(loss, 1, 5),
          best_of(run.column("test.loss"), false, 1, 5), best_of(run.column("test.accuracy"), true, 100, 2),
          median_of(run.column("samples_per_s"))})
      html += fmt::format("<td class='number'>{}</td>", cell);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string settings_table(const std::vector<Run>& runs, const std::vector<std::string>& paths) {
  std::string html = "<div class='wide'><table><tr><th>setting</th>";
  for (const Run& run : runs) html += fmt::format("<th>{}</th>", escaped(run.name));
  html += "</tr>\n";
  for (const std::string& path : paths) {
    html += fmt::format("<tr><td>{}</td>", escaped(path));
    for (const Run& run : runs) {
      const auto found = run.settings.find(path);
      html += fmt::format("<td><pre>{}</pre></td>", found == run.settings.end() ? "" : escaped(found->second));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string settings(const std::vector<Run>& runs) {
  if (runs.size() > 1) {
    const auto differing = differing_settings(runs);
    return "<h2>Settings that differ</h2>\n" +
           (differing.empty() ? std::string("<p>none</p>\n") : settings_table(runs, differing));
  }
  std::vector<std::string> all;
  for (const auto& [path, value] : runs.front().settings) all.push_back(path);
  return "<h2>Settings</h2>\n" + settings_table(runs, all);
}

}  // namespace

std::string page(const std::vector<Run>& runs) {
  const std::string title = runs.size() == 1 ? runs.front().name : fmt::format("{} runs", runs.size());
  return fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width, initial-scale=1'>\n<title>{0}</title><style>{1}{2}</style></head><body>\n"
      "<h1>{0}</h1>\n{3}<h2>Results</h2>\n{4}<h2>Curves</h2>\n<div "
      "class='grid-of-plots'>\n{5}</div>\n{6}</body></html>\n",
      escaped(title), style, color_rules(), legend(runs), summary(runs), plots(runs), settings(runs));
}

}  // namespace muster::report
