// The log: who prints, where lines go, and that lines stay whole between threads.
#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/base/text.hpp>

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

namespace muster {
namespace {

struct Printed {
  std::string out, err;
};

template <class Action>
Printed printed(Action action) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  action();
  return {testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("muster-log-test-" + std::to_string(::getpid()));
  }
  void TearDown() override {
    log::set_printing(true);
    log::close_file();
    ::unsetenv("MUSTER_PROGRESS");
    std::filesystem::remove(path_);
  }
  std::filesystem::path path_;
};

TEST_F(LogTest, InfoGoesToStdoutAndWarningsToStderr) {
  const Printed text = printed([] {
    log::info("{} of {}", 1, 2);
    log::warn("careful with {}", "fire");
    log::write_error("muster: error: burnt");
  });
  EXPECT_EQ(text.out, "1 of 2\n");
  EXPECT_EQ(text.err, "muster: warning: careful with fire\nmuster: error: burnt\n");
}

TEST_F(LogTest, BracesOfALineAreNotAFormat) {
  EXPECT_EQ(printed([] { log::write_info("{not a format}"); }).out, "{not a format}\n");
}

TEST_F(LogTest, OtherRanksPrintErrorsAlone) {
  log::set_printing(false);
  const Printed text = printed([] {
    log::info("hello");
    log::warn("hello");
    log::write_error("rank 3 failed");
  });
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(text.err, "rank 3 failed\n");
}

TEST_F(LogTest, TheFileHasEveryLineAtOnce) {
  log::open_file(path_);
  (void)printed([] {
    log::info("one");
    log::warn("two");
    log::write_error("three");
  });
  EXPECT_EQ(read_file(path_), "one\nwarning: two\nthree\n");  // before it is closed: a killed run keeps its lines
  log::close_file();
  (void)printed([] { log::info("four"); });
  EXPECT_EQ(read_file(path_), "one\nwarning: two\nthree\n");
}

TEST_F(LogTest, OpeningAgainAppends) {
  for (const char* line : {"first run", "resumed"}) {
    log::open_file(path_);
    (void)printed([&] { log::info("{}", line); });
    log::close_file();
  }
  EXPECT_EQ(read_file(path_), "first run\nresumed\n");
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsNamed) {
  try {
    log::open_file("/proc/absent/log.txt");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/proc/absent/log.txt"), std::string::npos) << error.what();
  }
}

TEST_F(LogTest, LinesOfThreadsStayWhole) {
  log::open_file(path_);
  const Printed text = printed([] {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 50; ++i) log::info("{0} {1} {0}", t, i);
      });
  });
  std::set<std::string> expected;
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 50; ++i) expected.insert(fmt::format("{0} {1} {0}", t, i));
  for (const std::string& all : {text.out, read_file(path_)}) {
    auto lines = split(all, '\n');
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    EXPECT_EQ(lines.size(), 200u);
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), expected);
  }
}

TEST_F(LogTest, ProgressIsForTerminalsOnly) {
  ::setenv("MUSTER_PROGRESS", "0", 1);
  EXPECT_FALSE(log::is_terminal());
  EXPECT_EQ(printed([] { log::write_progress("50 %"); }).out, "");
}

TEST_F(LogTest, ProgressReplacesItselfAndGivesWayToLines) {
  ::setenv("MUSTER_PROGRESS", "1", 1);
  const Printed text = printed([] {
    log::write_progress("1 %");
    log::write_progress("2 %");
    log::info("done");
    log::write_progress("");
  });
  EXPECT_EQ(text.out, "1 %\r\033[K2 %\r\033[Kdone\n");
}

TEST_F(LogTest, ProgressStaysOutOfTheFile) {
  ::setenv("MUSTER_PROGRESS", "1", 1);
  log::open_file(path_);
  (void)printed([] {
    log::write_progress("1 %");
    log::info("done");
  });
  EXPECT_EQ(read_file(path_), "done\n");
}

}  // namespace
}  // namespace muster
