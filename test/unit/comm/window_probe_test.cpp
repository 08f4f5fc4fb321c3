// The probe of one-sided memory against windows that do not work as they should. Real ones: test/ranks.
#include <muster/base/error.hpp>
#include <muster/comm/window_probe.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace muster::comm {
namespace {

/// Memory of this process as the target's part.
class LocalWindow : public Window {
 public:
  LocalWindow() : memory_(probe_window_bytes()) {}
  std::span<std::byte> mine() override { return memory_; }
  void put(std::span<const std::byte> from, int, std::size_t offset) override {
    std::memcpy(memory_.data() + offset, from.data(), from.size());
  }
  void get(std::span<std::byte> into, int, std::size_t offset) override {
    std::memcpy(into.data(), memory_.data() + offset, into.size());
  }
  void flush(int) override {}
  void put_word(std::uint64_t value, int, std::size_t offset) override {
    std::memcpy(memory_.data() + offset, &value, sizeof value);
  }
  std::uint64_t get_word(int, std::size_t offset) override {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + offset, sizeof value);
    return value;
  }
  void progress() override {}
  WindowKind kind() const override { return WindowKind::general; }
  std::string describe() const override { return "local"; }
  void close() override {}

 private:
  std::vector<std::byte> memory_;
};

class StuckWindow final : public LocalWindow {
 public:
  void flush(int) override { std::this_thread::sleep_for(std::chrono::hours(1)); }
};
class LossyWindow final : public LocalWindow {
 public:
  void put(std::span<const std::byte> from, int rank, std::size_t offset) override {
    LocalWindow::put(from.first(from.size() - 1), rank, offset);
  }
};
/// Each word takes 3 ms.
class SlowWindow final : public LocalWindow {
 public:
  std::uint64_t get_word(int rank, std::size_t offset) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return LocalWindow::get_word(rank, offset);
  }
};

TEST(WindowProbe, MeasuresAndLeavesTheTargetItsEnd) {
  SlowWindow window;
  const WindowFacts facts = measure_window(window, 0, 60);
  EXPECT_GE(facts.word_s, 3e-3);
  EXPECT_GT(facts.get_bytes_per_s, 0);
  EXPECT_GT(facts.put_bytes_per_s, 0);
  EXPECT_EQ(window.LocalWindow::get_word(0, 0), 1u);  // what the target waits for
}

TEST(WindowProbe, SeesThatAByteIsLost) {
  LossyWindow lossy;
  EXPECT_FALSE(measure_window(lossy, 0, 60).delivers);
  EXPECT_EQ(lossy.get_word(0, 0), 1u);  // the target is let go all the same
  LocalWindow good;
  EXPECT_TRUE(measure_window(good, 0, 60).delivers);
}

TEST(WindowProbeDeathTest, EndsAWindowWithoutProgress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  StuckWindow window;
  EXPECT_EXIT(measure_window(window, 0, 0.2), testing::ExitedWithCode(static_cast<int>(ExitCode::launch)),
              "makes no progress: a copy did not complete within 0.2 s");
}

}  // namespace
}  // namespace muster::comm
