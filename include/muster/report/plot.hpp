// Diagrams as inline SVG. Colours come from the page's style sheet (classes c0 to c7, dashed for `is_dashed`), so that
// light and dark need no second drawing.
#pragma once

#include <muster/report/run.hpp>

#include <string>
#include <vector>

namespace muster::report {

struct Series {
  std::string name;
  int color = 0;  ///< 0 to 7
  bool is_dashed = false;
  std::vector<Point> points;
};

struct Plot {
  std::string title;
  std::string x_label = "step";
  bool is_log = false;  ///< y; values not above 0 are left out
  double scale = 1;     ///< of y, as for percentages
  std::vector<Series> series;
};

/// "" where no series has two points, or all are 0.
std::string line_plot(const Plot& plot);

/// One bar per key. "" for no keys.
std::string bar_plot(const std::string& title, const std::string& x_label,
                     const std::map<std::int64_t, std::int64_t>& bars);

/// At most `most` points: of each stretch the lowest and the highest.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

/// Round values that cover [low, high], about `wanted` of them, each 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(double low, double high, int wanted);

/// Text safe inside HTML.
std::string escaped(const std::string& text);

}  // namespace muster::report
