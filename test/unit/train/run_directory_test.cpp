// Who may write into which directory, and what --force removes.
#include "unit/train/scratch.hpp"

#include <muster/base/error.hpp>
#include <muster/train/run_directory.hpp>

#include <gtest/gtest.h>

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::put_bytes;
using test::Scratch;
using Names = std::vector<std::string>;

std::string error_of(ExitCode code, const fs::path& directory, bool is_resumed, bool is_forced) {
  try {
    static_cast<void>(open_run_directory(directory, is_resumed, is_forced));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

void make_run(const fs::path& directory) {
  fs::create_directories(directory / "checkpoints/step-00000010");
  fs::create_directories(directory / "checkpoints/.tmp-step-00000020");
  fs::create_directories(directory / "errors");
  for (const char* name : {"config.yaml", "log.txt", "metrics.jsonl", "record.jsonl",
                           "checkpoints/step-00000010/state.h5", "errors/rank-12.json"})
    put_bytes(directory / name, "x");
}

TEST(RunDirectory, IsMadeWithItsParents) {
  const Scratch scratch;
  EXPECT_EQ(open_run_directory(scratch / "a/b/run", false, false).start, RunStart::fresh);
  EXPECT_TRUE(fs::is_directory(scratch / "a/b/run"));
  EXPECT_EQ(open_run_directory(scratch / "a/forced", false, true).start, RunStart::fresh);
}

TEST(RunDirectory, ARunIsNotOverwritten) {
  const Scratch scratch;
  make_run(scratch / "run");
  EXPECT_EQ(error_of(ExitCode::usage, scratch / "run", false, false),
            fmt::format("{} holds a run already; continue it with --resume, replace it with --force, or set run.name",
                        (scratch / "run").string()));
  EXPECT_TRUE(fs::exists(scratch / "run/checkpoints/step-00000010/state.h5"));
}

TEST(RunDirectory, EachTraceOfARunCounts) {
  for (const char* name :
       {"config.yaml", "log.txt", "metrics.jsonl", "record.jsonl", "checkpoints/step-00000001", "errors/rank-0.json"}) {
    const Scratch scratch;
    fs::create_directories((scratch / name).parent_path());
    put_bytes(scratch / name, "x");
    EXPECT_NE(error_of(ExitCode::usage, scratch.path(), false, false).find("--resume"), std::string::npos) << name;
  }
}

TEST(RunDirectory, ResumeKeepsEverything) {
  const Scratch scratch;
  make_run(scratch / "run");
  EXPECT_EQ(open_run_directory(scratch / "run", true, false).start, RunStart::resumed);
  EXPECT_EQ(names_in(scratch / "run"),
            (Names{"checkpoints", "config.yaml", "errors", "log.txt", "metrics.jsonl", "record.jsonl"}));
  EXPECT_EQ(error_of(ExitCode::usage, scratch / "none", true, false),
            fmt::format("--resume: there is no run in {}; start without --resume", (scratch / "none").string()));
  EXPECT_FALSE(fs::exists(scratch / "none"));
}

TEST(RunDirectory, ForceRemovesARun) {
  const Scratch scratch;
  make_run(scratch / "run");
  EXPECT_EQ(open_run_directory(scratch / "run", false, true).start, RunStart::fresh);
  EXPECT_TRUE(names_in(scratch / "run").empty());
}

TEST(RunDirectory, ForceRemovesNothingElse) {
  const Scratch scratch;
  make_run(scratch / "run");
  fs::create_directories(scratch / "run/checkpoints/mine");
  for (const char* name : {"notes.md", "checkpoints/step-best", "errors/rank-x.json", "errors/other.json"})
    put_bytes(scratch / "run" / name, "x");
  put_bytes(scratch / "outside", "x");
  fs::remove(scratch / "run/log.txt");
  fs::create_symlink(scratch / "outside", scratch / "run/log.txt");
  const OpenRun run = open_run_directory(scratch / "run", false, true);
  EXPECT_EQ(names_in(scratch / "run"), (Names{"checkpoints", "errors", "notes.md"}));
  EXPECT_EQ(names_in(scratch / "run/checkpoints"), (Names{"mine", "step-best"}));
  EXPECT_EQ(names_in(scratch / "run/errors"), (Names{"other.json", "rank-x.json"}));
  EXPECT_TRUE(fs::exists(scratch / "outside"));
}

TEST(RunDirectory, ForceRemovesTheEventFilesOfMusterOnly) {
  const Scratch scratch;
  for (const char* name : {"events.out.tfevents.1700000000.muster.0", "events.out.tfevents.1700000000.muster.12",
                           "events.out.tfevents.1700000000.host.0", "events.out.tfevents.mine"})
    put_bytes(scratch / name, "x");
  EXPECT_NE(error_of(ExitCode::usage, scratch.path(), false, false).find("--force"), std::string::npos);
  const OpenRun run = open_run_directory(scratch.path(), false, true);
  EXPECT_EQ(names_in(scratch.path()), (Names{"events.out.tfevents.1700000000.host.0", "events.out.tfevents.mine"}));
}

TEST(RunDirectory, IsLockedAsLongAsItsOwnerLives) {
  const Scratch scratch;
  {
    const OpenRun run = open_run_directory(scratch / "run", false, false);
    EXPECT_EQ(run.lock.state(), FileLock::State::held);
    EXPECT_NE(error_of(ExitCode::usage, scratch / "run", false, true).find("another muster is training"),
              std::string::npos);
    EXPECT_NE(error_of(ExitCode::usage, scratch / "run", true, false).find("another muster is training"),
              std::string::npos);
  }
  EXPECT_EQ(open_run_directory(scratch / "run", true, false).lock.state(), FileLock::State::held);
}

TEST(RunDirectory, AForeignFolderIsUsedAsItIs) {
  const Scratch scratch;
  put_bytes(scratch / "notes.md", "x");
  fs::create_directories(scratch / "errors");
  EXPECT_EQ(open_run_directory(scratch.path(), false, false).start, RunStart::fresh);
  EXPECT_EQ(names_in(scratch.path()), (Names{"errors", "notes.md"}));
}

TEST(RunDirectory, Refusals) {
  const Scratch scratch;
  put_bytes(scratch / "file", "x");
  EXPECT_EQ(error_of(ExitCode::usage, scratch / "run", true, true), "--resume and --force exclude each other");
  EXPECT_EQ(error_of(ExitCode::usage, scratch / "file", false, true),
            fmt::format("run.directory: {} is a file; expected a folder or a free name", (scratch / "file").string()));
  const std::string message = error_of(ExitCode::checkpoint, scratch / "file/run", false, false);
  EXPECT_NE(message.find("cannot prepare the run directory " + (scratch / "file/run").string() + ": Not a directory"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace muster::train
