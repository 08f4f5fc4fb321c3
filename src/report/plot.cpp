#include <muster/report/plot.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::report {
namespace {

constexpr double width = 560, height = 280;
constexpr double left = 62, right = 14, top = 34, bottom = 42;
constexpr std::size_t most_points = 600;

/// Where values lie in the drawing.
struct Frame {
  double x_low, x_high, y_low, y_high;
  bool is_log;

  double x(double value) const { return left + (value - x_low) / (x_high - x_low) * (width - left - right); }
  double y(double value) const {
    const double v = is_log ? std::log10(value) : value;
    return height - bottom - (v - y_low) / (y_high - y_low) * (height - top - bottom);
  }
};

std::string label(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return fmt::format("{:.3g}", value);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::vector<Series> drawable(const Plot& plot) {
  std::vector<Series> result;
  for (Series series : plot.series) {
    for (Point& p : series.points) p.y *= plot.scale;
    if (plot.is_log) std::erase_if(series.points, [](const Point& p) { return !(p.y > 0); });
    series.points = thinned(series.points, most_points);
    if (!series.points.empty()) result.push_back(std::move(series));
  }
  return result;
}

/// The frame with some room; a line that is flat but for rounding gets as much above and below as if it were flat.
Frame frame_of(const std::vector<Series>& all, bool is_log) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Frame frame{inf, -inf, inf, -inf, is_log};
  for (const Series& series : all)
    for (const Point& p : series.points) {
      const double y = is_log ? std::log10(p.y) : p.y;
      frame.x_low = std::min(frame.x_low, p.x);
      frame.x_high = std::max(frame.x_high, p.x);
      frame.y_low = std::min(frame.y_low, y);
      frame.y_high = std::max(frame.y_high, y);
    }
  if (frame.x_high <= frame.x_low) frame.x_high = frame.x_low + 1;
  constexpr double rounding = 1e-9;
  const double span = frame.y_high - frame.y_low;
  const double size = std::max({std::abs(frame.y_low), std::abs(frame.y_high), is_log ? 1 : 0.0});
  const double room = span > rounding * size ? 0.05 * span : std::max(0.05 * size, rounding);
  const bool starts_at_zero = !is_log && frame.y_low >= 0 && frame.y_low - room < 0;
  frame.y_low = starts_at_zero ? 0 : frame.y_low - room;
  frame.y_high += room;
  return frame;
}

/// Values between 10^low and 10^high: powers of ten where several lie there, else 1, 2 and 5 times them.
std::vector<double> log_ticks(double low, double high) {
  constexpr double few_decades = 2, many_decades = 8;
  std::vector<double> result;
  const double each = high - low > many_decades ? 2 : 1;
  for (double decade = std::floor(low); decade <= high; decade += each)
    for (double factor : {1.0, 2.0, 5.0}) {
      const double at = decade + std::log10(factor);
      if (at >= low && at <= high && (factor == 1 || high - low < few_decades)) result.push_back(std::pow(10, at));
    }
  return result;
}

std::string axes(const Frame& frame, const std::string& x_label) {
  std::string svg;
  const auto horizontal = [&](double value, double at) {
    svg += fmt::format(
        "<line class='grid' x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}'/>"
        "<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n",
        left, width - right, at, at, left - 6, at + 4, label(value));
  };
  for (double value : frame.is_log ? log_ticks(frame.y_low, frame.y_high) : ticks(frame.y_low, frame.y_high, 5))
    horizontal(value, frame.y(value));
  for (double tick : ticks(frame.x_low, frame.x_high, 6))
    svg += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", frame.x(tick),
                       height - bottom + 17, label(tick));
  svg += fmt::format("<line class='axis' x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}'/>\n", left, width - right,
                     height - bottom, height - bottom);
  svg += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                     (left + width - right) / 2, height - 8, escaped(x_label));
  return svg;
}

std::string head(const std::string& title) {
  return fmt::format(
      "<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>\n<text class='title' x='{:.1f}' y='18'>{}</text>\n", width,
      height, escaped(title), left, escaped(title));
}

std::string curve(const Series& series, const Frame& frame) {
  std::string path;
  for (const Point& p : series.points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.x(p.x), frame.y(p.y));
  std::string svg =
      fmt::format("<path class='curve c{}{}' d='{}'/>\n", series.color, series.is_dashed ? " dashed" : "", path);
  constexpr std::size_t most_marks = 60;
  if (series.points.size() > most_marks) return svg;
  for (const Point& p : series.points)
    svg +=
        fmt::format("<circle class='mark c{}' cx='{:.1f}' cy='{:.1f}' r='2.5'><title>{}: {} at {}</title></circle>\n",
                    series.color, frame.x(p.x), frame.y(p.y), escaped(series.name), label(p.y), label(p.x));
  return svg;
}

}  // namespace

std::string line_plot(const Plot& plot) {
  const std::vector<Series> all = drawable(plot);
  const auto says_something = [](const Series& s) {
    return s.points.size() > 1 && std::ranges::any_of(s.points, [](const Point& p) { return p.y != 0; });
  };
  if (std::ranges::none_of(all, says_something)) return "";
  const Frame frame = frame_of(all, plot.is_log);
  std::string svg = head(plot.title) + axes(frame, plot.x_label);
  for (const Series& series : all) svg += curve(series, frame);
  return svg + "</svg>\n";
}

std::string bar_plot(const std::string& title, const std::string& x_label,
                     const std::map<std::int64_t, std::int64_t>& bars) {
  if (bars.empty()) return "";
  std::int64_t most = 0;
  for (const auto& [key, count] : bars) most = std::max(most, count);
  const auto first = static_cast<double>(bars.begin()->first), last = static_cast<double>(bars.rbegin()->first);
  const Frame frame{first - 0.5, last + 0.5, 0, 1.05 * static_cast<double>(std::max<std::int64_t>(most, 1)), false};
  const double each = (width - left - right) / (frame.x_high - frame.x_low);
  std::string svg = head(title) + axes(frame, x_label);
  for (const auto& [key, count] : bars) {
    const double x = frame.x(static_cast<double>(key)), y = frame.y(static_cast<double>(count));
    svg += fmt::format(
        "<rect class='bar' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'><title>{}: {}</title></rect>\n",
        x - 0.4 * each, y, 0.8 * each, height - bottom - y, key, count);
  }
  return svg + "</svg>\n";
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t stretches = std::max<std::size_t>(most / 2, 1);
  std::vector<Point> kept;
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(s * points.size() / stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((s + 1) * points.size() / stretches);
    auto [low, high] = std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

std::vector<double> ticks(double low, double high, int wanted) {
  if (!(high > low) || wanted < 1) return {low};
  const double raw = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double rest = raw / power;
  const double step = power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
  if (!(step > 0) || !std::isfinite(step)) return {low};
  constexpr double rounding = 1e-9;
  const double first = std::ceil(low / step - rounding), last = std::floor(high / step + rounding);
  std::vector<double> result;
  for (double i = 0; i <= std::min(last - first, 2.0 * wanted); ++i) {  // counted: next to `first`, 1 may be nothing
    const double tick = (first + i) * step + 0.0;
    if (result.empty() || tick > result.back()) result.push_back(tick);
  }
  return result;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace muster::report
