#include <muster/train/generate.hpp>

#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::train {

std::int64_t draw_token(std::span<const float> logits, double temperature, std::int64_t top_k, double uniform) {
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int64_t i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return at(a) > at(b); });
  if (temperature == 0) return order[0];
  if (top_k > 0 && top_k < static_cast<std::int64_t>(order.size())) order.resize(static_cast<std::size_t>(top_k));
  std::vector<double> weights;
  for (std::int64_t i : order) weights.push_back(std::exp((at(i) - at(order[0])) / temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t k = 0; k < order.size(); ++k)
    if ((left -= weights[k]) < 0) return order[k];
  return order.back();
}

namespace {

void check(const GenerateOptions& options) {
  if (options.tokens < 1) fail(ExitCode::usage, "predict: --tokens: expected at least 1, found {}", options.tokens);
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    fail(ExitCode::usage, "predict: --temperature: expected at least 0, found {}", options.temperature);
  if (options.top_k < 0) fail(ExitCode::usage, "predict: --top-k: expected at least 0, found {}", options.top_k);
}

}  // namespace

std::string generate(TrainedNetwork& trained, const dataset::Vocabulary& vocabulary, const GenerateOptions& options) {
  check(options);
  const model::Network decoder = model::build_decoder(trained.loaded.config.model);
  const std::int64_t context = trained.network.input[0], classes = decoder.classes();
  if (vocabulary.size() > classes)
    fail(ExitCode::data, "the vocabulary has {} tokens, but the network's output only {}", vocabulary.size(), classes);
  std::vector<std::int32_t> ids = vocabulary.encode(options.prompt);
  if (ids.empty()) fail(ExitCode::usage, "predict: --prompt: expected at least one token, found none");
  const auto given = static_cast<std::int64_t>(ids.size()), last = given + options.tokens;
  if (last > context)
    fail(ExitCode::usage, "predict: {} tokens of the prompt and {} more are longer than the network's {} positions",
         given, options.tokens, context);

  model::ProgramOptions shape;
  shape.rows = 1;
  shape.is_training = false;
  shape.threads = trained.threads;
  model::Program program(decoder, *trained.backend, shape, trained.store->descs());
  program.bind(*trained.store, {});
  std::vector<float> logits(static_cast<std::size_t>(classes));
  const RandomStream random(options.seed, Purpose::sample, 0, 0);
  for (std::int64_t t = 0; t + 1 < last; ++t) {
    const float token = static_cast<float>(ids[static_cast<std::size_t>(t)]);
    program.load(&token, nullptr);
    device::RunContext run;
    run.position = t;
    program.forward(0, run);
    if (t + 1 < given) continue;
    program.read_output(logits.data());
    const auto known = std::span<const float>(logits).first(static_cast<std::size_t>(vocabulary.size()));
    const double uniform = static_cast<double>(random.uniform(static_cast<std::uint64_t>(t + 1 - given)));
    ids.push_back(static_cast<std::int32_t>(draw_token(known, options.temperature, options.top_k, uniform)));
  }
  return vocabulary.decode(std::span<const std::int32_t>(ids).subspan(static_cast<std::size_t>(given)));
}

}  // namespace muster::train
