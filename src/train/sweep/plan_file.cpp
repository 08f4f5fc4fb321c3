#include "train/sweep/plan_file.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <vector>

namespace muster::train {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* trial_mark = "# trial ";

/// The lines of the file.
struct Plan {
  Lines shared, trials;
};

Plan parse(const std::string& text) {
  Plan plan;
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) (line.starts_with(trial_mark) ? plan.trials : plan.shared).push_back(line);
  return plan;
}

Plan plan_of(const config::Sweep& sweep) {
  config::Sweep anywhere = sweep;
  anywhere.directory = "";
  Plan plan = parse(config::load_trial(anywhere, 0).effective_yaml);
  plan.shared.push_back(fmt::format("# {} ranks per trial", sweep.options.ranks_per_trial));
  for (std::size_t t = 0; t < sweep.trials(); ++t)
    plan.trials.push_back(fmt::format("{}{}: {}", trial_mark, t, sweep.describe(t)));
  return plan;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& there, const std::string& here,
                         const std::string& mend) {
  fail(ExitCode::usage, "{} holds another sweep: it has '{}', this one '{}'; {}set another run.name, or delete it",
       file.string(), there, here, mend);
}

void check(const std::filesystem::path& file, const Plan& before, const Plan& now) {
  const auto [there, here] = std::ranges::mismatch(before.trials, now.trials);
  if (there != before.trials.end() && here != now.trials.end())
    refuse(file, *there, *here, "more trials can only follow those it has; ");
  const auto [was, is] = std::ranges::mismatch(before.shared, now.shared);
  if (was != before.shared.end() || is != now.shared.end())
    refuse(file, was == before.shared.end() ? "" : *was, is == now.shared.end() ? "" : *is, "");
}

}  // namespace

void keep_plan(const std::filesystem::path& file, const config::Sweep& sweep) {
  const Plan now = plan_of(sweep);
  if (std::filesystem::exists(file)) {
    const Plan before = parse(read_file(file, static_cast<int>(ExitCode::checkpoint)));
    check(file, before, now);
    if (before.trials.size() >= now.trials.size()) return;
  }
  write_file_atomic(file, join(now.shared, "\n") + "\n" + join(now.trials, "\n") + "\n");
}

}  // namespace muster::train
