#include "train/sweep/results.hpp"

#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

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

void write_result(const std::filesystem::path& trial_directory, const TrialResult& result, int writer) {
  nlohmann::ordered_json object;
  object["state"] = state_of(result);
  object["code"] = static_cast<int>(result.code);
  if (result.code != ExitCode::done) object["message"] = one_line(result.message);
  object["seconds"] = result.seconds;
  const std::filesystem::path own = trial_directory / fmt::format("result-{}.json", writer);
  write_file_atomic(own, object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n", code);
  std::error_code error;
  std::filesystem::rename(own, result_file(trial_directory), error);
  if (error)
    fail(ExitCode::checkpoint, "cannot rename {} to {}: {}", own.string(), result_file(trial_directory).string(),
         error.message());
}

std::optional<TrialResult> read_result(const std::filesystem::path& trial_directory) {
  const std::filesystem::path file = result_file(trial_directory);
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const auto object = nlohmann::json::parse(read_file(file, code));
    TrialResult result;
    result.code = static_cast<ExitCode>(object.at("code").get<int>());
    result.message = object.value("message", "");
    result.seconds = object.at("seconds").get<double>();
    return result;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::checkpoint,
         "{}: expected the result of a trial, found something else ({}); delete it to run the trial again",
         file.string(), error.what());
  }
}

Trial read_trial(const std::filesystem::path& trial_directory, const std::string& metric) {
  Trial trial{read_result(trial_directory), {}};
  if (!trial.result || trial.result->code != ExitCode::done) return trial;
  try {
    trial.metric = read_metric(trial_directory, metric);
  } catch (const Error& error) {
    trial.result->code = error.code();
    trial.result->message = one_line(error.what());
  }
  return trial;
}

std::string results_csv(const config::Sweep& plan, const std::vector<Trial>& trials) {
  std::vector<std::string> heading{"trial", "state", plan.options.metric, "step", "seconds", "exit_code"};
  heading.insert(heading.end(), plan.keys.begin(), plan.keys.end());
  heading.emplace_back("message");
  std::string text = join(heading, ",") + "\n";
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const auto& result = trials[t].result;
    std::vector<std::string> fields{std::to_string(t), state_of(result), "", "", "", ""};
    if (result) {
      const bool is_done = result->code == ExitCode::done;
      if (is_done) fields[2] = fmt::format("{}", trials[t].metric.value);
      if (is_done) fields[3] = std::to_string(trials[t].metric.step);
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

std::vector<std::string> ranking(const config::Sweep& plan, const std::vector<Trial>& trials) {
  std::vector<std::size_t> done, failed;
  for (std::size_t t = 0; t < trials.size(); ++t)
    if (trials[t].result) (trials[t].result->code == ExitCode::done ? done : failed).push_back(t);
  const auto value = [&](std::size_t t) { return trials[t].metric.value; };
  std::ranges::stable_sort(done, [&](std::size_t a, std::size_t b) {
    return plan.is_larger_better() ? value(a) > value(b) : value(a) < value(b);
  });
  std::vector<std::string> lines{
      fmt::format("{:>5} {:>6}  {:>14}  {}", "rank", "trial", plan.options.metric, "values")};
  for (std::size_t i = 0; i < done.size(); ++i)
    lines.push_back(fmt::format("{:>5} {:>6}  {:>14.6g}  {}", i + 1, done[i], value(done[i]), plan.describe(done[i])));
  for (const std::size_t t : failed)
    lines.push_back(
        fmt::format("{:>5} {:>6}  {:>14}  {}  ({})", "-", t, "failed", plan.describe(t), trials[t].result->message));
  return lines;
}

}  // namespace muster::train
