// Every optimizer against the memory bandwidth of a triad (a = b + s c), measured in turns in one run: an update should
// be bound by memory alone. The result of each update is checked. Fails where a kind reaches less than the floor.
//   bench_optimizers [million elements = 16] [threads = 1]
#include <muster/base/clock.hpp>
#include <muster/optim/optimizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace muster;

constexpr int rounds = 9;
constexpr double floor_share = 0.6;  // of the triad's bandwidth; bytes as STREAM counts them

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + rounds / 2, values.end());
  return values[rounds / 2];
}

void triad(std::span<float> a, std::span<const float> b, std::span<const float> c, int threads) {
  const auto count = static_cast<std::int64_t>(a.size());
#pragma omp parallel for simd num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < count; ++i)
    a[static_cast<std::size_t>(i)] = b[static_cast<std::size_t>(i)] + 0.5f * c[static_cast<std::size_t>(i)];
}

struct Arrays {
  std::vector<float> weights, grads, first, second, spare;
  explicit Arrays(std::size_t count) : weights(count), grads(count), first(count), second(count), spare(count) {}
  void reset() {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = 0.25f + 0.5f * static_cast<float>(i % 7);
      grads[i] = 0.125f - 0.25f * static_cast<float>(i % 7);
      first[i] = second[i] = 0.0f;
    }
  }
};

/// Whether the kind is fast enough and its result the one of a single period of the values.
bool measure(const std::string& kind, Arrays& arrays, int threads) {
  optim::OptimizerOptions options;
  options.kind = kind;
  options.weight_decay = 0.01;
  const auto optimizer = optim::make_optimizer(options);
  const auto count = static_cast<std::int64_t>(arrays.weights.size());
  const bool is_layerwise = kind == "lars" || kind == "lamb";
  const std::vector<optim::ParamRun> runs{{"weight", {0, count}, true}};
  std::vector<std::span<float>> state;
  if (!optimizer->slots().empty()) state.push_back(arrays.first);
  if (optimizer->slots().size() > 1) state.push_back(arrays.second);
  arrays.reset();
  Arrays period(7);
  period.reset();
  std::vector<std::span<float>> period_state;
  if (!state.empty()) period_state.push_back(period.first);
  if (state.size() > 1) period_state.push_back(period.second);
  const std::vector<optim::ParamRun> period_runs{{"weight", {0, 7}, true}};

  std::vector<double> triad_s, update_s;
  for (int round = 0; round < rounds; ++round) {
    Stopwatch watch;
    triad(arrays.spare, arrays.weights, arrays.grads, threads);
    triad_s.push_back(watch.elapsed_s());
    watch.restart();
    optimizer->update({1e-3, round + 1, 1.0, threads}, arrays.weights, arrays.grads, state, runs);
    update_s.push_back(watch.elapsed_s());
    optimizer->update({1e-3, round + 1, 1.0, 1}, period.weights, period.grads, period_state, period_runs);
  }
  bool is_right =
      true;  // norms of many periods differ from those of one in both factors of a ratio alike, up to rounding
  for (std::size_t i = 0; i < arrays.weights.size(); ++i)
    is_right =
        is_right && std::abs(arrays.weights[i] - period.weights[i % 7]) <= 2e-5f * std::abs(period.weights[i % 7]);

  // weights are read and written, gradients read, slots read and written; layer-wise kinds read once more for norms
  const double bytes =
      4.0 * static_cast<double>(count) * (3.0 + 2.0 * static_cast<double>(state.size()) + (is_layerwise ? 2.0 : 0.0));
  const double share = bytes / median(update_s) / (12.0 * static_cast<double>(count) / median(triad_s));
  fmt::print("{:<9} {:8.2f} ms  {:6.1f} GB/s  {:4.0f} % of the triad  {}\n", kind, 1e3 * median(update_s),
             bytes / median(update_s) / 1e9, 100 * share, is_right ? "right" : "WRONG");
  return is_right && share >= floor_share;
}

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>((argc > 1 ? std::atof(argv[1]) : 16) * 1e6);
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  Arrays arrays(count);
  bool is_good = true;
  for (const std::string& kind : optim::optimizer_kinds()) is_good = measure(kind, arrays, threads) && is_good;
  if (!is_good) fmt::print("a result is wrong or below {:.0f} % of the triad's bandwidth\n", 100 * floor_share);
  return is_good ? 0 : 1;
}
