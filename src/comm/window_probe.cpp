#include <muster/comm/window_probe.hpp>

#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/base/status_file.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace muster::comm {
namespace {

// The target's part: two words that the prober writes, then the values that it copies to and fro.
constexpr std::size_t done_at = 0, silence_at = 8, values_at = 64;
constexpr std::size_t value_bytes = 1 << 20;
constexpr int words = 100, copies = 4;
constexpr auto silence = std::chrono::milliseconds(30);
constexpr double own_progress_s = 10e-3;  // an answer within the silence

[[noreturn]] void refuse(const std::string& what) {
  fail(ExitCode::launch,
       "the one-sided transport of this MPI library {}; with Open MPI start with --mca osc ^ucx and --mca pml ob1, on "
       "one host also parallel.transport: shared",
       what);
}

/// Ends the process from a thread of its own when a blocking call outlasts the limit.
class Limit {
 public:
  explicit Limit(double limit_s) : thread_([this, limit_s] { watch(limit_s); }) {}
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch(double limit_s) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return is_over_; })) return;
    try {
      refuse(
          fmt::format("makes no progress: a copy did not complete within {:g} s, although the target polled", limit_s));
    } catch (const Error& error) {
      log::write_error(fmt::format("muster: error: {}", error.what()));
    }
    write_status_file(static_cast<int>(ExitCode::launch));
    std::_Exit(static_cast<int>(ExitCode::launch));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

/// Answers until the prober is done; once, when told so, by silence.
void serve(Window& window, int self, double limit_s) {
  const Deadline deadline("the probe of the one-sided memory", limit_s);
  bool was_silent = false;
  while (window.get_word(self, done_at) == 0 && !deadline.is_over()) {
    window.progress();
    if (!was_silent && window.get_word(self, silence_at) != 0) {
      std::this_thread::sleep_for(silence);
      was_silent = true;
    }
  }
}

template <class Copy>
double bytes_per_s(Window& window, int target, const Copy& copy) {
  double best_s = 1e30;
  for (int i = 0; i < copies; ++i) {
    const Stopwatch watch;
    copy();
    window.flush(target);
    best_s = std::min(best_s, watch.elapsed_s());
  }
  return static_cast<double>(value_bytes) / std::max(best_s, 1e-9);
}

}  // namespace

std::size_t probe_window_bytes() { return values_at + value_bytes; }

WindowFacts measure_window(Window& window, int target, double limit_s) {
  const Limit limit(limit_s);
  WindowFacts facts;
  std::vector<std::byte> sent(value_bytes), received(value_bytes);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 % 251);

  static_cast<void>(window.get_word(target, done_at));  // connects
  const Stopwatch watch;
  for (int i = 0; i < words; ++i) static_cast<void>(window.get_word(target, done_at));
  facts.word_s = watch.elapsed_s() / words;
  facts.put_bytes_per_s = bytes_per_s(window, target, [&] { window.put(sent, target, values_at); });
  facts.get_bytes_per_s = bytes_per_s(window, target, [&] { window.get(received, target, values_at); });
  facts.delivers = received == sent;

  if (window.kind() == WindowKind::general) {
    window.put_word(1, target, silence_at);
    std::this_thread::sleep_for(silence / 4);
    const Stopwatch answer;
    static_cast<void>(window.get_word(target, done_at));
    facts.progresses_alone = answer.elapsed_s() < own_progress_s;
  }
  window.put_word(1, target, done_at);
  return facts;
}

WindowFacts probe_window(Communicator& group, WindowKind kind, int target, int prober, double limit_s) {
  const auto window = group.window(group.rank() == target ? probe_window_bytes() : 0, kind);
  WindowFacts facts;
  if (group.rank() == prober) facts = measure_window(*window, target, limit_s);
  else if (group.rank() == target) serve(*window, target, limit_s);
  static_assert(std::is_trivially_copyable_v<WindowFacts>);
  facts.prober = prober;
  group.broadcast(bytes_of(std::span<WindowFacts>(&facts, 1)), prober, "probe of the one-sided memory");
  window->close();
  if (!facts.delivers) refuse("does not deliver what was sent");  // on all ranks alike
  return facts;
}

std::string WindowFacts::describe(const Communicator& group) const {
  return fmt::format("rank {} on {} reads a word in {:.2g} us, gets {:.2g} GB/s, puts {:.2g} GB/s{}", prober,
                     group.host(prober), 1e6 * word_s, 1e-9 * get_bytes_per_s, 1e-9 * put_bytes_per_s,
                     progresses_alone ? "" : "; answered by polling");
}

}  // namespace muster::comm
