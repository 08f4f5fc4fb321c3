#include "train/sweep/results.hpp"

#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace muster::train {
namespace {

constexpr int code = static_cast<int>(ExitCode::checkpoint);

std::filesystem::path result_file(const std::filesystem::path& directory) { return directory / "result.json"; }

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Quoted where a comma, a quote or a line end is in it.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string state_of(const std::optional<TrialResult>& result) {
  if (!result) return "unfinished";
  return result->code == ExitCode::done ? "done" : "failed";
}

}  // namespace

TrialResult read_metric(const std::filesystem::path& run_directory, const std::string& metric) {
  const bool is_of_test = metric.starts_with("test.");
  const std::string key = is_of_test ? metric.substr(5) : metric;
  std::optional<TrialResult> last;
  std::vector<std::string> known;
  for (const std::string& line : split(read_file(run_directory / "metrics.jsonl", code), '\n')) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    const bool is_evaluation = object.contains("split");
    for (const auto& [name, value] : object.items()) {
      const std::string full = (is_evaluation ? "test." : "") + name;
      if ((value.is_number() || value.is_null()) && std::ranges::find(known, full) == known.end())
        known.push_back(full);
    }
    const auto found = object.find(key);
    if (is_evaluation != is_of_test || found == object.end()) continue;
    last.emplace();
    last->step = object.value("step", std::int64_t{0});
    last->value = found->is_number() ? found->get<double>() : std::nan("");
  }
  if (!last)
    fail(ExitCode::usage, "sweep.metric: no '{}' in the metrics of {}{}; there are {}", metric, run_directory.string(),
         did_you_mean(metric, known), join(known, ", "));
  if (!std::isfinite(last->value)) fail(ExitCode::diverged, "{} is NaN or Inf at step {}", metric, last->step);
  return *last;
}

void write_result(const std::filesystem::path& trial_directory, const TrialResult& result) {
  nlohmann::ordered_json object;
  object["state"] = state_of(result);
  object["code"] = static_cast<int>(result.code);
  if (result.code == ExitCode::done) object["value"] = result.value;
  else object["message"] = one_line(result.message);
  object["step"] = result.step;
  object["seconds"] = result.seconds;
  write_file_atomic(result_file(trial_directory),
                    object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n", code);
}

std::optional<TrialResult> read_result(const std::filesystem::path& trial_directory) {
  const std::filesystem::path file = result_file(trial_directory);
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const auto object = nlohmann::json::parse(read_file(file, code));
    TrialResult result;
    result.code = static_cast<ExitCode>(object.at("code").get<int>());
    result.message = object.value("message", "");
    result.value = object.value("value", 0.0);
    result.step = object.at("step").get<std::int64_t>();
    result.seconds = object.at("seconds").get<double>();
    return result;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint,
         "{}: expected the result of a trial, found something else ({}); delete it to run the trial again",
         file.string(), error.what());
  }
}

std::string results_csv(const config::Sweep& plan, const std::vector<std::optional<TrialResult>>& results) {
  std::vector<std::string> heading{"trial", "state", plan.options.metric, "step", "seconds", "exit_code"};
  heading.insert(heading.end(), plan.keys.begin(), plan.keys.end());
  heading.emplace_back("message");
  std::string text = join(heading, ",") + "\n";
  for (std::size_t t = 0; t < results.size(); ++t) {
    const auto& result = results[t];
    std::vector<std::string> fields{std::to_string(t), state_of(result), "", "", "", ""};
    if (result) {
      if (result->code == ExitCode::done) fields[2] = fmt::format("{}", result->value);
      fields[3] = std::to_string(result->step);
      fields[4] = fmt::format("{:.3f}", result->seconds);
      fields[5] = std::to_string(static_cast<int>(result->code));
    }
    fields.insert(fields.end(), plan.values[t].begin(), plan.values[t].end());
    fields.push_back(result ? result->message : "");
    for (std::string& field : fields) field = csv_field(field);
    text += join(fields, ",") + "\n";
  }
  return text;
}

std::vector<std::string> ranking(const config::Sweep& plan, const std::vector<std::optional<TrialResult>>& results) {
  std::vector<std::size_t> done, failed;
  for (std::size_t t = 0; t < results.size(); ++t)
    if (results[t]) (results[t]->code == ExitCode::done ? done : failed).push_back(t);
  std::ranges::stable_sort(done, [&](std::size_t a, std::size_t b) {
    return plan.is_larger_better() ? results[a]->value > results[b]->value : results[a]->value < results[b]->value;
  });
  std::vector<std::string> lines{
      fmt::format("{:>5} {:>6}  {:>14}  {}", "rank", "trial", plan.options.metric, "values")};
  for (std::size_t i = 0; i < done.size(); ++i)
    lines.push_back(
        fmt::format("{:>5} {:>6}  {:>14.6g}  {}", i + 1, done[i], results[done[i]]->value, plan.describe(done[i])));
  for (const std::size_t t : failed)
    lines.push_back(
        fmt::format("{:>5} {:>6}  {:>14}  {}  ({})", "-", t, "failed", plan.describe(t), results[t]->message));
  return lines;
}

}  // namespace muster::train
