// What the optimizer files share: the loop over pieces of parameter runs and threads, and sums of squares. Pieces have
// a fixed size and each is worked on by one thread, so that the number of threads never changes a result.
#pragma once

#include <muster/optim/optimizer.hpp>

#include <omp.h>
#include <algorithm>
#include <memory>

namespace muster::optim {

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options);  // sgd, momentum, nesterov
std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options);  // adam, adamw
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options);

/// Elements per piece: two or three arrays of it fit the first-level cache.
inline constexpr std::int64_t piece_elements = norm_piece;
/// Below this many elements the threads' start costs more than it saves.
inline constexpr std::int64_t parallel_elements = 8 * piece_elements;

/// A stretch of one run, in arena elements.
struct Piece {
  const ParamRun& run;
  std::size_t run_index = 0;
  std::size_t index = 0;  ///< counted over all runs
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

constexpr std::int64_t piece_count(std::int64_t elements) { return (elements + piece_elements - 1) / piece_elements; }

inline std::size_t piece_count(std::span<const ParamRun> runs) {
  std::int64_t count = 0;
  for (const ParamRun& run : runs) count += piece_count(run.elements.size());
  return static_cast<std::size_t>(count);
}

/// Calls body for the pieces of all runs whose position, counted in elements over the runs, falls to `thread` of
/// `threads`.
template <class Body>
void visit_pieces(std::span<const ParamRun> runs, std::int64_t total, int thread, int threads, const Body& body) {
  std::int64_t position = 0;
  std::size_t index = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Range elements = runs[r].elements;
    for (std::int64_t begin = elements.begin; begin < elements.end; begin += piece_elements, ++index) {
      const std::int64_t end = std::min(begin + piece_elements, elements.end);
      if (position * threads / total == thread) body(Piece{runs[r], r, index, begin, end});
      position += end - begin;
    }
  }
}

/// Calls body(piece) once for every piece of every run, in parallel where it is worth it.
template <class Body>
void for_each_piece(std::span<const ParamRun> runs, int threads, const Body& body) {
  std::int64_t total = 0;
  for (const ParamRun& run : runs) total += run.elements.size();
  if (threads <= 1 || total < parallel_elements) {
    visit_pieces(runs, std::max<std::int64_t>(total, 1), 0, 1, body);
    return;
  }
#pragma omp parallel num_threads(threads)
  visit_pieces(runs, total, omp_get_thread_num(), omp_get_num_threads(), body);
}

/// Sum of squares of one piece in double, in an order that depends on nothing but `count`.
double piece_squares(const float* values, std::int64_t count);

/// of_runs[r]: the entries of `of_pieces` (one per Piece::index) that belong to run r, added in order.
void add_pieces(std::span<const ParamRun> runs, std::span<const double> of_pieces, std::vector<double>& of_runs);

}  // namespace muster::optim
