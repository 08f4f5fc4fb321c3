// Files are complete or absent, and failures name the path and the reason.
#include <muster/base/error.hpp>
#include <muster/base/file.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>
#include <csignal>
#include <fstream>

namespace muster {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("muster-file-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

template <class Action>
void expect_error(ExitCode code, const std::string& part, Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(FileTest, WritesWhatItReads) {
  std::string content(3'000'001, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 % 251);
  for (const std::string& text : {content, std::string("x"), std::string()}) {
    write_file_atomic(folder_ / "file", text);
    EXPECT_EQ(read_file(folder_ / "file"), text);
  }
  EXPECT_EQ(files_in_folder(), 1u) << "a temporary file was left";
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  write_file_atomic(folder_ / "file", "old");
  // A limit on the size of files stands for a full disk.
  const auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit previous{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &previous), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = previous.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_file_atomic(folder_ / "file", std::string(5000, 'n'));
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.code(), ExitCode::checkpoint);
  }
  ::setrlimit(RLIMIT_FSIZE, &previous);
  std::signal(SIGXFSZ, previous_handler);
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_NE(message.find((folder_ / "file").string()), std::string::npos) << message;
  EXPECT_EQ(read_file(folder_ / "file"), "old");
  EXPECT_EQ(files_in_folder(), 1u) << "the half-written file was left";
}

TEST_F(FileTest, AFailedRenameLeavesNoTemporaryFile) {
  fs::create_directories(folder_ / "taken" / "inside");  // a folder that is not empty cannot be replaced
  expect_error(ExitCode::checkpoint, (folder_ / "taken").string(),
               [&] { write_file_atomic(folder_ / "taken", "text"); });
  EXPECT_EQ(files_in_folder(), 1u) << "a temporary file was left";
}

TEST_F(FileTest, AMissingFolderIsNamed) {
  const fs::path path = folder_ / "absent" / "file";
  expect_error(ExitCode::data, path.string(), [&] { write_file_atomic(path, "text", 3); });
  expect_error(ExitCode::checkpoint, "No such file or directory", [&] { write_file_atomic(path, "text"); });
}

TEST_F(FileTest, ReadingFailsWithPathAndReason) {
  expect_error(ExitCode::data, (folder_ / "absent").string() + ": No such file or directory",
               [&] { (void)read_file(folder_ / "absent"); });
  expect_error(ExitCode::usage, "absent", [&] { (void)read_file(folder_ / "absent", 2); });
  expect_error(ExitCode::data, folder_.string() + ": Is a directory", [&] { (void)read_file(folder_); });
}

TEST_F(FileTest, SyncingSomethingAbsentFails) {
  EXPECT_NO_THROW(fsync_folder(folder_));
  expect_error(ExitCode::checkpoint, "absent", [&] { fsync_file(folder_ / "absent"); });
  expect_error(ExitCode::checkpoint, "absent", [&] { fsync_folder(folder_ / "absent"); });
}

TEST_F(FileTest, HashesAsPublished) {
  write_file_atomic(folder_ / "file", "");
  EXPECT_EQ(hash_file(folder_ / "file"), "2d06800538d394c2");  // XXH3-64 of nothing, seed 0
  write_file_atomic(folder_ / "file", "abc");
  EXPECT_EQ(hash_file(folder_ / "file"), "78af5f94892f3950");  // as xxhsum -H3 prints
}

TEST_F(FileTest, HashesBeyondOneBlock) {
  std::string content((1 << 20) + 1, 'a');
  write_file_atomic(folder_ / "file", content);
  const std::string before = hash_file(folder_ / "file");
  content.back() = 'b';
  write_file_atomic(folder_ / "file", content);
  EXPECT_NE(hash_file(folder_ / "file"), before);
  expect_error(ExitCode::checkpoint, "absent", [&] { (void)hash_file(folder_ / "absent"); });
}

}  // namespace
}  // namespace muster
