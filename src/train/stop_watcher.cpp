#include <muster/train/stop_watcher.hpp>

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/train/signals.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <mutex>
#include <utility>

namespace muster::train {
namespace {

constexpr std::chrono::milliseconds interval{200};  // a look at a file that is not there costs a network disk little

double slurm_end_s() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr || *text == '\0') return std::numeric_limits<double>::infinity();
  char* rest = nullptr;
  const double epoch = std::strtod(text, &rest);
  if (rest == text || *rest != '\0' || !(epoch > 0))
    fail(ExitCode::usage, "SLURM_JOB_END_TIME={}: expected seconds since 1970; unset it, or set run.wall_time: never",
         text);
  return now_s() + epoch - static_cast<double>(std::time(nullptr));
}

}  // namespace

double end_of_time_s(const WallTime& wall_time) {
  if (wall_time.is_auto) return slurm_end_s();
  if (wall_time.seconds <= 0) return std::numeric_limits<double>::infinity();
  return std::min(now_s() - since_process_start_s() + wall_time.seconds, slurm_end_s());
}

double guessed_save_s(double bytes) {
  constexpr double start_s = 1, bytes_per_s = 5e7;
  return start_s + bytes / bytes_per_s;
}

StopWatcher::StopWatcher(std::filesystem::path directory, double end_s, double first_save_s, bool is_resumed)
    : stop_file_(std::move(directory) / "stop"), end_s_(end_s), save_s_(first_save_s) {
  if (!is_resumed) remove_stop_file();
  thread_ = std::jthread([this](const std::stop_token& token) { watch(token); });
}

StopWatcher::~StopWatcher() {
  thread_.request_stop();
  thread_.join();
  clear_stop_wish();  // it was this run's
}

void StopWatcher::saved(double seconds) {
  if (!std::exchange(has_saved_, true)) save_s_ = seconds;
  keep_longest(save_s_, seconds);
}

void StopWatcher::remove_stop_file() const {
  std::error_code error;  // another may have removed it
  std::filesystem::remove(stop_file_, error);
}

void StopWatcher::watch(const std::stop_token& token) const {
  std::mutex mutex;
  std::condition_variable_any end;  // a run does not wait for the watcher's next look
  std::unique_lock lock(mutex);
  do {
    std::error_code error;
    if (std::filesystem::exists(stop_file_, error)) wish_to_stop(StopReason::file);
    if (now_s() + reserve().total_s() > end_s_) wish_to_stop(StopReason::wall_time);
    end.wait_for(lock, token, interval, [] { return false; });
  } while (!token.stop_requested());
}

}  // namespace muster::train
