#include <muster/train/meter.hpp>

#include <algorithm>

namespace muster::train {

void Meter::add(const StepResult& result, double step_s) {
  if (step_ms_.size() < most_step_times) step_ms_.push_back(step_s * 1e3);
  sums_.rows += result.sums.rows;
  sums_.loss_units += result.sums.loss_units;
  sums_.correct += result.sums.correct;
  sums_.top_k_correct += result.sums.top_k_correct;
  exposed_s_ += result.reduce.exposed_s;
  grad_norm_ = result.grad_norm;
  ++steps_;
}

std::array<std::int64_t, 5> Meter::totals(comm::Communicator& data) const {
  std::array<std::int64_t, 5> sums{0, sums_.rows, sums_.loss_units, sums_.correct, sums_.top_k_correct};
  data.all_reduce(std::span<std::int64_t>(sums), comm::Reduction::sum, "sums of the interval so far");
  sums[0] = steps_;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += carried_[i];
  return sums;
}

Interval Meter::finish(comm::Communicator& data, comm::Communicator& world, double stall_s, double waited_s,
                       std::int64_t labels_per_sample) {
  const auto microseconds = [](double s) { return static_cast<std::int64_t>(s * 1e6); };
  const double exposed_s = exposed_s_ + waited_s - waited_before_s_;
  std::array<std::int64_t, 4> sums{sums_.rows, sums_.loss_units, sums_.correct, sums_.top_k_correct};
  data.all_reduce(std::span<std::int64_t>(sums), comm::Reduction::sum, "sums of the interval");
  std::array<std::int64_t, 2> waits{microseconds(exposed_s), microseconds(stall_s - stall_before_s_)};
  world.all_reduce(std::span<std::int64_t>(waits), comm::Reduction::sum, "waits of the interval");

  const auto measured_rows = static_cast<double>(sums[0]);
  for (std::size_t i = 0; i < 4; ++i) sums[i] += carried_[i + 1];
  Interval interval;
  interval.steps = steps();
  interval.rows = sums[0];
  interval.seconds = watch_.elapsed_s();
  const double rows = static_cast<double>(std::max<std::int64_t>(sums[0], 1));
  interval.loss = static_cast<double>(sums[1]) * model::loss_unit / rows;
  const double labels = rows * static_cast<double>(labels_per_sample);
  interval.accuracy = static_cast<double>(sums[2]) / labels;
  interval.top_k_accuracy = static_cast<double>(sums[3]) / labels;
  interval.samples_per_s = measured_rows / std::max(interval.seconds, 1e-9);
  const double rank_seconds = interval.seconds * world.size();
  interval.exposed_comm = static_cast<double>(waits[0]) * 1e-6 / std::max(rank_seconds, 1e-9);
  interval.stall = static_cast<double>(waits[1]) * 1e-6 / std::max(rank_seconds, 1e-9);
  interval.grad_norm = grad_norm_;

  if (!step_ms_.empty()) {
    std::ranges::sort(step_ms_);
    interval.step_ms_p20 = step_ms_[step_ms_.size() / 5];
    interval.step_ms_median = step_ms_[step_ms_.size() / 2];
  }

  *this = Meter();
  stall_before_s_ = stall_s;
  waited_before_s_ = waited_s;
  return interval;
}

}  // namespace muster::train
