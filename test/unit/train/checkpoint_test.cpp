// What a checkpoint promises: complete or absent, the same bytes for the same state, damage noticed, older ones kept.
#include "unit/train/scratch.hpp"
#include "unit/train/states.hpp"

#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::checkpoint_error;
using test::names_in;
using test::put_bytes;
using test::Scratch;
using test::state_of;
using Names = std::vector<std::string>;

const Names files{"manifest.json", "state.h5", "weights.safetensors"};

TEST(Checkpoint, RoundTrip) {
  const Scratch run;
  const fs::path folder = save_checkpoint(run.path(), state_of(1200), 3);
  EXPECT_EQ(folder, run / "checkpoints/step-00001200");
  EXPECT_EQ(names_in(folder), files);
  EXPECT_EQ(load_checkpoint(folder), state_of(1200));
  EXPECT_EQ(load_newest_checkpoint(run.path()), state_of(1200));
}

TEST(Checkpoint, AnEmptyState) {
  const Scratch run;
  const fs::path folder = save_checkpoint(run.path(), CheckpointState{}, 1);
  EXPECT_EQ(load_checkpoint(folder), CheckpointState{});
}

TEST(Checkpoint, WeightsAlone) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(5), 1);
  CheckpointState expected = state_of(5);
  expected.optimizer.clear();
  EXPECT_EQ(load_newest_checkpoint(run.path(), CheckpointParts::weights), expected);
}

TEST(Checkpoint, EqualStatesGiveEqualBytes) {
  const Scratch a, b;
  const fs::path first = save_checkpoint(a.path(), state_of(7), 3);
  const auto second_of = fs::last_write_time(first / "state.h5");
  while (fs::file_time_type::clock::now() <
         second_of + std::chrono::milliseconds(1100)) {  // times in seconds would differ
  }
  const fs::path second = save_checkpoint(b.path(), state_of(7), 3);
  for (const std::string& name : files) EXPECT_EQ(bytes_of(first / name), bytes_of(second / name)) << name;
}

TEST(Checkpoint, ManifestStatesCountersSizesAndHashes) {
  const Scratch run;
  const fs::path folder = save_checkpoint(run.path(), state_of(1200), 3);
  const auto manifest = nlohmann::json::parse(bytes_of(folder / "manifest.json"));
  EXPECT_EQ(manifest.at("format"), 2);
  EXPECT_EQ(manifest.at("step"), 1200);
  EXPECT_EQ(manifest.at("samples"), 38401);
  EXPECT_EQ(manifest.at("epoch"), 120);
  ASSERT_EQ(manifest.at("files").size(), 2u);
  for (const char* name : {"state.h5", "weights.safetensors"}) {
    EXPECT_EQ(manifest.at("files").at(name).at("bytes"), fs::file_size(folder / name));
    EXPECT_EQ(manifest.at("files").at(name).at("xxh3").get<std::string>().size(), 16u);
  }
}

TEST(Checkpoint, NothingInItNamesRanks) {
  const Scratch run;
  const fs::path folder = save_checkpoint(run.path(), state_of(3), 3);
  for (const std::string& name : files) EXPECT_EQ(bytes_of(folder / name).find("rank"), std::string::npos) << name;
}

TEST(Checkpoint, KeepsTheNewest) {
  const Scratch run;
  for (std::int64_t step : {1, 2, 3, 4}) save_checkpoint(run.path(), state_of(step), 2);
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000003", "step-00000004"}));
  save_checkpoint(run.path(), state_of(5), 0);  // at least the one just written
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000005"}));
}

TEST(Checkpoint, StepsOrderAsNumbers) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(99'999'999), 5);
  save_checkpoint(run.path(), state_of(100'000'000), 5);
  EXPECT_EQ(load_newest_checkpoint(run.path()).step, 100'000'000);
  save_checkpoint(run.path(), state_of(100'000'001), 1);
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-100000001"}));
}

TEST(Checkpoint, OtherEntriesAreLeftAlone) {
  const Scratch run;
  fs::create_directories(run / "checkpoints/step-best");
  fs::create_directories(run / "checkpoints/mine");
  put_bytes(run / "checkpoints/step-00000009", "a file");
  save_checkpoint(run.path(), state_of(1), 1);
  save_checkpoint(run.path(), state_of(2), 1);
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"mine", "step-00000002", "step-00000009", "step-best"}));
  EXPECT_EQ(load_newest_checkpoint(run.path()).step, 2);
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  const Scratch run;
  CheckpointState state = state_of(4);
  save_checkpoint(run.path(), state, 1);
  state.weights[0].values[1] = 1234.5f;
  save_checkpoint(run.path(), state, 1);
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000004"}));
  EXPECT_EQ(load_newest_checkpoint(run.path()), state);
}

TEST(Checkpoint, LeftoversOfAKilledSaveAreNeitherLoadedNorKept) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(1), 3);
  fs::copy(run / "checkpoints/step-00000001", run / "checkpoints/.tmp-step-00000002");
  fs::copy(run / "checkpoints/step-00000001", run / "checkpoints/.old-step-00000000");
  EXPECT_EQ(load_newest_checkpoint(run.path()).step, 1);
  save_checkpoint(run.path(), state_of(3), 3);
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000001", "step-00000003"}));
}

/// A child saves without end and is killed at some moment, again and again: a good checkpoint is always left, and the
/// next child goes on from it.
TEST(Checkpoint, SurvivesBeingKilled) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(1), 2);
  std::int64_t last = 1;
  for (int kill_after_ms : {0, 1, 2, 3, 5, 7, 11, 13, 17, 23}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (std::int64_t step = last;; ++step)
          save_checkpoint(run.path(), state_of(step), 2);  // the last one once more first
      } catch (...) {
        ::_exit(1);
      }
    }
    const fs::path next = run / fmt::format("checkpoints/step-{:08}", last + 1);
    for (int wait = 0; !fs::exists(next) && wait < 20'000; ++wait) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(1000 * kill_after_ms));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
    testing::internal::CaptureStderr();
    const CheckpointState state = load_newest_checkpoint(run.path());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a damaged checkpoint lies under a final name";
    EXPECT_EQ(state, state_of(state.step));
    ASSERT_GT(state.step, last);
    last = state.step;
  }
}

// ---- damage

class Damage : public testing::TestWithParam<std::string> {
 protected:
  Damage() {
    save_checkpoint(run.path(), state_of(1), 3);
    newest = save_checkpoint(run.path(), state_of(2), 3);
    path = newest / GetParam();
    whole = bytes_of(path);
  }
  /// The newest is refused with a message that names the file, and loading goes back to the older one with a warning.
  void expect_fallback() {
    const std::string message = checkpoint_error([&] { load_checkpoint(newest); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    testing::internal::CaptureStderr();
    EXPECT_EQ(load_newest_checkpoint(run.path()), state_of(1));
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_NE(warning.find(path.string()), std::string::npos) << warning;
  }
  Scratch run;
  fs::path newest, path;
  std::string whole;
};

TEST_P(Damage, Missing) {
  fs::remove(path);
  expect_fallback();
}

TEST_P(Damage, Empty) {
  put_bytes(path, "");
  expect_fallback();
}

TEST_P(Damage, Truncated) {
  put_bytes(path, whole.substr(0, whole.size() / 2));
  expect_fallback();
}

TEST_P(Damage, Grown) {
  put_bytes(path, whole + "}");
  expect_fallback();
}

TEST_P(Damage, AFolderInItsPlace) {
  fs::remove(path);
  fs::create_directory(path);
  expect_fallback();
}

/// Every byte of a short file, every 97th of a long one: either the damage is noticed or it changes nothing.
TEST_P(Damage, AFlippedBit) {
  const bool is_manifest = GetParam() == "manifest.json";
  std::size_t noticed = 0, tried = 0;
  for (std::size_t at = 0; at < whole.size(); at += whole.size() < 1000 ? 1 : 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    put_bytes(path, damaged);
    ++tried;
    try {
      EXPECT_EQ(load_checkpoint(newest), state_of(2)) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint);
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 0u);
  if (!is_manifest) {
    EXPECT_EQ(noticed, tried);
  }  // white space and unused keys of the manifest carry nothing
}

INSTANTIATE_TEST_SUITE_P(EachFile, Damage, testing::ValuesIn(files),
                         [](const auto& param) { return param.param.substr(0, param.param.find('.')); });

TEST(Checkpoint, ReasonsAreNamed) {
  const Scratch run;
  const fs::path folder = save_checkpoint(run.path(), state_of(2), 3), weights = folder / "weights.safetensors";
  const std::string whole = bytes_of(weights);
  put_bytes(weights, whole.substr(0, whole.size() - 1));
  EXPECT_EQ(
      checkpoint_error([&] { load_checkpoint(folder); }),
      fmt::format("{}: {} bytes, the manifest says {}: truncated", weights.string(), whole.size() - 1, whole.size()));
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  put_bytes(weights, flipped);
  EXPECT_NE(checkpoint_error([&] { load_checkpoint(folder); }).find(": damaged"), std::string::npos);
  put_bytes(weights, whole);
  std::string manifest = bytes_of(folder / "manifest.json");
  manifest.replace(manifest.find("\"format\": 2"), 11, "\"format\": 9");
  put_bytes(folder / "manifest.json", manifest);
  EXPECT_NE(checkpoint_error([&] { load_checkpoint(folder); }).find("format 9, this muster reads 2"),
            std::string::npos);
}

TEST(Checkpoint, NoGoodOne) {
  const Scratch run;
  EXPECT_EQ(checkpoint_error([&] { load_newest_checkpoint(run.path()); }),
            fmt::format("{}: no checkpoint found; start without --resume", (run / "checkpoints").string()));
  for (std::int64_t step : {1, 2}) fs::remove(save_checkpoint(run.path(), state_of(step), 3) / "state.h5");
  const std::string message = checkpoint_error([&] { load_newest_checkpoint(run.path()); });
  EXPECT_NE(message.find("none of 2 checkpoints is good"), std::string::npos) << message;
  EXPECT_NE(message.find("step-00000001/state.h5"), std::string::npos) << message;
  EXPECT_NE(message.find("step-00000002/state.h5"), std::string::npos) << message;
}

TEST(Checkpoint, ADamagedNewerOneNeverPushesOutTheGoodOnes) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(100), 1);
  const fs::path damaged = save_checkpoint(run.path(), state_of(200), 2);
  put_bytes(damaged / "state.h5", "x");
  ASSERT_EQ(load_newest_checkpoint(run.path()).step, 100);
  save_checkpoint(run.path(), state_of(150), 1);  // the resumed run
  EXPECT_EQ(load_newest_checkpoint(run.path()), state_of(150));
  save_checkpoint(run.path(), state_of(200), 1);  // and when it gets there, the damaged one is replaced
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000200"}));
  EXPECT_EQ(load_newest_checkpoint(run.path()), state_of(200));
}

// ---- a disk that is full

/// Files of this process may not grow beyond `bytes`; writes fail with EFBIG.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int);
};

void expect_full_disk(const CheckpointState& state, const std::string& file) {
  const Scratch run;
  save_checkpoint(run.path(), state_of(1), 1);
  std::string message;
  for (int attempt = 0; attempt < 3; ++attempt) {  // more than once: a failed library must not be left unusable
    const SmallDisk disk(20'000);
    message = checkpoint_error([&] { save_checkpoint(run.path(), state, 1); });
  }
  EXPECT_NE(message.find("checkpoint of step 2 not written, older ones are untouched: "), std::string::npos) << message;
  EXPECT_NE(message.find(file), std::string::npos) << message;
  EXPECT_EQ(names_in(run / "checkpoints"), (Names{"step-00000001"}));
  EXPECT_EQ(load_newest_checkpoint(run.path()), state_of(1));
  save_checkpoint(run.path(), state, 1);  // space again
  EXPECT_EQ(load_newest_checkpoint(run.path()), state);
}

TEST(FullDisk, InTheWeights) {
  CheckpointState state = state_of(2);
  state.weights = {test::tensor_of("w", {300, 100}, 1)};
  expect_full_disk(state, "weights.safetensors");
}

TEST(FullDisk, InTheOptimizerState) {
  CheckpointState state = state_of(2);
  state.optimizer = {test::tensor_of("m/w", {300, 100}, 1)};
  expect_full_disk(state, "state.h5");
}

TEST(Checkpoint, AFileInTheWayOfTheFolder) {
  const Scratch run;
  put_bytes(run / "checkpoints", "");
  EXPECT_NE(checkpoint_error([&] { save_checkpoint(run.path(), state_of(1), 1); }).find("not written"),
            std::string::npos);
}

}  // namespace
}  // namespace muster::train
