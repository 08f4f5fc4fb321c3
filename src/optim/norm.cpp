// Norms whose bits depend on the values alone: fixed pieces, fixed lanes inside a piece, sums in order.
#include "optim/optimizer.hpp"

namespace muster::optim {

double piece_squares(const float* values, std::int64_t count) {
  // Explicit lanes: a compiler's own reduction may depend on the alignment of `values`.
  constexpr std::int64_t lanes = 32;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane)
    sums[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (double part : sums) sum += part;
  return sum;
}

void add_pieces(std::span<const ParamRun> runs, std::span<const double> of_pieces, std::vector<double>& of_runs) {
  of_runs.assign(runs.size(), 0.0);
  std::size_t at = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (std::int64_t p = 0; p < piece_count(runs[r].elements.size()); ++p) of_runs[r] += of_pieces[at++];
}

void square_pieces(std::span<const float> values, int threads, std::span<double> squares) {
  const ParamRun all{"", {0, static_cast<std::int64_t>(values.size())}, false};
  for_each_piece({&all, 1}, threads, [&](const Piece& piece) {
    squares[piece.index] = piece_squares(values.data() + piece.begin, piece.end - piece.begin);
  });
}

double squared_norm(std::span<const float> values, int threads) {
  thread_local std::vector<double> squares;  // kept: a training step allocates nothing
  squares.assign(static_cast<std::size_t>(norm_pieces(static_cast<std::int64_t>(values.size()))), 0.0);
  square_pieces(values, threads, squares);
  double sum = 0;
  for (double part : squares) sum += part;
  return sum;
}

double clip_scale(double norm, double clip_norm) {
  if (clip_norm <= 0 || !(norm > clip_norm)) return 1.0;
  return clip_norm / norm;
}

}  // namespace muster::optim
