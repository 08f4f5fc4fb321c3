// Locks keep others out as long as their owner lives, and cost no descriptor afterwards.
#include "unit/message_of.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file_lock.hpp>

#include <gtest/gtest.h>

#include <unistd.h>
#include <utility>

namespace muster {
namespace {

namespace fs = std::filesystem;

class FileLockTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::temp_directory_path() / ("muster-lock-test-" + std::to_string(::getpid()));
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_F(FileLockTest, OneHolderAtATime) {
  for (const fs::path& path : {folder_, folder_ / "file"}) {
    FileLock first(path);
    EXPECT_EQ(first.state(), FileLock::State::held);
    EXPECT_EQ(FileLock(path).state(), FileLock::State::busy);
    FileLock owner = std::move(first);
    EXPECT_EQ(FileLock(path).state(), FileLock::State::busy);
    owner = FileLock();
    EXPECT_EQ(FileLock(path).state(), FileLock::State::held);
  }
  EXPECT_TRUE(fs::is_regular_file(folder_ / "file"));
}

TEST_F(FileLockTest, GivesItsDescriptorBack) {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    const FileLock lock(folder_), busy(folder_);
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FileLockTest, SaysWhatCannotBeOpened) {
  const fs::path absent = folder_ / "none" / "file";
  EXPECT_NE(test::message_of([&] { FileLock lock(absent); }).find("cannot open " + absent.string()), std::string::npos);
}

}  // namespace
}  // namespace muster
