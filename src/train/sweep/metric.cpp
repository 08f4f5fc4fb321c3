#include "train/sweep/metric.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace muster::train {
namespace {

constexpr const char* of_evaluations = "test.";

bool is_evaluated(const Config& config) {
  return config.data.synthetic.samples > 0 ? config.data.synthetic.test_samples > 0 : config.data.test.is_set();
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

MetricValue read_metric(const std::filesystem::path& run_directory, const std::string& metric) {
  const bool is_of_test = metric.starts_with(of_evaluations);
  const std::string key = is_of_test ? metric.substr(std::string(of_evaluations).size()) : metric;
  std::optional<MetricValue> last;
  std::vector<std::string> known;
  const std::string text = read_file(run_directory / "metrics.jsonl", static_cast<int>(ExitCode::checkpoint));
  for (const std::string& line : split(text, '\n')) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    const bool is_evaluation = object.contains("split");
    for (const auto& [name, value] : object.items()) {
      const std::string full = (is_evaluation ? of_evaluations : "") + name;
      if ((value.is_number() || value.is_null()) && !has(known, full)) known.push_back(full);
    }
    const auto found = object.find(key);
    if (is_evaluation != is_of_test || found == object.end()) continue;
    last = {found->is_number() ? found->get<double>() : std::nan(""), object.value("step", std::int64_t{0})};
  }
  if (!last)
    fail(ExitCode::usage, "sweep.metric: no '{}' in the metrics of {}{}; there are {}", metric, run_directory.string(),
         did_you_mean(metric, known), join(known, ", "));
  if (!std::isfinite(last->value)) fail(ExitCode::diverged, "{} is NaN or Inf at step {}", metric, last->step);
  return *last;
}

std::vector<std::string> metric_names(const Config& config) {
  const bool has_labels = config.model.loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  std::vector<std::string> names{"step", "epoch", "samples", "loss"};
  if (has_labels) names.emplace_back("accuracy");
  if (has_labels && config.model.top_k > 0) names.emplace_back("top_k_accuracy");
  std::vector<std::string> of_training{"lr", "samples_per_s"};
  if (config.parallel.strategy == "parameter_server")
    of_training.insert(of_training.end(), {"updates_per_s", "staleness_p50", "staleness_max", "workers_gone"});
  else of_training.insert(of_training.end(), {"exposed_comm", "input_stall", "step_ms_p20", "step_ms_median"});
  if (config.parallel.strategy != "parameter_server" && config.optimizer.clip_norm > 0)
    of_training.emplace_back("grad_norm");
  const std::vector<std::string> shared = names;
  names.insert(names.end(), of_training.begin(), of_training.end());
  if (is_evaluated(config))
    for (const std::string& name : shared) names.push_back(of_evaluations + name);
  return names;
}

std::string metric_problem(const Config& config, const std::string& metric) {
  const std::vector<std::string> names = metric_names(config);
  if (has(names, metric)) return "";
  if (metric.starts_with(of_evaluations) && !is_evaluated(config))
    return fmt::format(
        "sweep.metric: '{}' needs data.test (or data.synthetic.test_samples); set it, or another metric: {}", metric,
        join(names, ", "));
  return fmt::format("sweep.metric: training writes no '{}'{}; there are {}", metric, did_you_mean(metric, names),
                     join(names, ", "));
}

}  // namespace muster::train
