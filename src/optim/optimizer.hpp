// What the optimizer files share: the loop over parameter runs and threads.
#pragma once

#include <muster/optim/optimizer.hpp>

#include <memory>

namespace muster::optim {

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options);      // sgd, momentum, nesterov
std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options);     // adam, adamw
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options);

/// Elements per piece of work; a run is cut here whatever the number of threads, so that threads never change a result.
inline constexpr std::int64_t piece = 8192;

/// Calls body(run, begin, end) for pieces [begin, end) of every run, in parallel where it is worth it.
template <class Body>
void for_each_piece(std::span<const ParamRun> runs, int threads, Body body) {
  for (const ParamRun& run : runs) {
    const std::int64_t pieces = (run.elements.size() + piece - 1) / piece;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 1)
    for (std::int64_t p = 0; p < pieces; ++p) {
      const std::int64_t begin = run.elements.begin + p * piece;
      body(run, begin, begin + piece < run.elements.end ? begin + piece : run.elements.end);
    }
  }
}

}  // namespace muster::optim
