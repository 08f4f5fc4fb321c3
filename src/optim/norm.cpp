#include "optim/optimizer.hpp"

#include <cmath>

namespace muster::optim {
namespace {

/// Sum of squares of one piece: eight lanes in double, added in order.
double piece_squares(const float* values, std::int64_t count) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::int64_t lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  for (; i < count; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double squared_norm(std::span<const float> values, int threads) {
  const auto count = static_cast<std::int64_t>(values.size()), pieces = (count + piece - 1) / piece;
  std::vector<double> sums(static_cast<std::size_t>(pieces));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 1)
  for (std::int64_t p = 0; p < pieces; ++p) sums[static_cast<std::size_t>(p)] = piece_squares(values.data() + p * piece, std::min(piece, count - p * piece));
  double sum = 0;
  for (double s : sums) sum += s;
  return sum;
}

double clip_scale(double norm, double clip_norm) {
  if (clip_norm <= 0 || !(norm > clip_norm)) return 1.0;
  return clip_norm / norm;
}

}  // namespace muster::optim
