// Learning-rate schedules as pure functions of the step. Linear warm-up: Goyal et al. 2017; cosine: Loshchilov and
// Hutter 2017 (one period); step, exponential, polynomial as in PyTorch. A warm-up takes the place of the first steps
// of step and exponential (their epochs count from the start of the training); cosine and polynomial begin after it.
#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::optim {

namespace {

void check(const char* key, double value, bool is_fine, const char* expected) {
  if (!is_fine) fail(ExitCode::usage, "schedule.{}: expected {}, found {}", key, expected, value);
}

void check_options(const ScheduleOptions& o) {
  check("warmup_epochs", o.warmup_epochs, o.warmup_epochs >= 0, "0 (off) or more");
  check("warmup_steps", static_cast<double>(o.warmup_steps), o.warmup_steps >= 0, "0 (off) or more");
  if (o.warmup_epochs > 0 && o.warmup_steps > 0)
    fail(ExitCode::usage, "schedule: warmup_epochs and warmup_steps exclude each other; give one");
  check("warmup_start", o.warmup_start, o.warmup_start >= 0 && o.warmup_start <= 1, "0 <= warmup_start <= 1");
  check("min_factor", o.min_factor, o.min_factor >= 0 && o.min_factor <= 1, "0 <= min_factor <= 1");
  check("power", o.power, o.power > 0, "a number above 0");
  check("gamma", o.gamma, o.gamma > 0, "a number above 0");
  for (double at : o.at_epochs) check("at_epochs", at, at > 0, "epochs above 0");
}

}  // namespace

std::vector<std::string> schedule_kinds() { return {"constant", "step", "exponential", "cosine", "polynomial"}; }

Schedule::Schedule(const ScheduleOptions& options, std::int64_t total_steps, double steps_per_epoch)
    : options_(options), total_steps_(total_steps), steps_per_epoch_(steps_per_epoch) {
  const auto kinds = schedule_kinds();
  if (std::find(kinds.begin(), kinds.end(), options_.kind) == kinds.end())
    fail(ExitCode::usage, "schedule: unknown kind '{}', expected one of {}{}", options_.kind, join(kinds, ", "),
         did_you_mean(options_.kind, kinds));
  check_options(options_);
  warmup_ = options_.warmup_steps > 0 ? options_.warmup_steps : std::llround(options_.warmup_epochs * steps_per_epoch_);
  if (warmup_ > total_steps_)
    fail(ExitCode::usage, "schedule: the warm-up of {} steps is longer than the training of {} steps", warmup_,
         total_steps_);
}

double Schedule::factor(std::int64_t step) const {
  if (step < warmup_) {  // reaches 1 at the first step after the warm-up
    const double part = static_cast<double>(step) / static_cast<double>(warmup_);
    return options_.warmup_start + (1.0 - options_.warmup_start) * part;
  }
  const double epoch = static_cast<double>(step) / steps_per_epoch_;
  if (options_.kind == "step") {
    const auto passed =
        std::count_if(options_.at_epochs.begin(), options_.at_epochs.end(), [&](double at) { return epoch >= at; });
    return std::pow(options_.gamma, static_cast<double>(passed));
  }
  if (options_.kind == "exponential") return std::pow(options_.gamma, std::floor(epoch));
  if (options_.kind == "constant") return 1.0;
  // Anneals over the steps after the warm-up: progress 0 at the first, 1 would be the step after the last.
  const double progress = std::min(1.0, static_cast<double>(step - warmup_) /
                                            static_cast<double>(std::max<std::int64_t>(total_steps_ - warmup_, 1)));
  const double shape = options_.kind == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                                                 : std::pow(1.0 - progress, options_.power);
  return options_.min_factor + (1.0 - options_.min_factor) * shape;
}

}  // namespace muster::optim
