// --set and MUSTER_*: precedence, paths through the chosen kind, what is put out by what is put in.
#include "config/overrides.hpp"
#include "testing.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

namespace muster::config::testing {
namespace {

/// A variable of the environment, put back as it was: other tests of the process read some of them.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() {
    if (before_) setenv(name_.c_str(), before_->c_str(), 1);
    else unsetenv(name_.c_str());
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

train::Config config_of(const std::string& text, Lines sets = {}, bool reads_environment = false) {
  return load_text(text, "c.yaml", {std::move(sets), reads_environment}).config;
}

TEST(Override, CommandLineBeatsEnvironmentBeatsFileBeatsDefault) {
  EXPECT_EQ(config_of(minimal).run.seed, 0u);
  const std::string text = with("epochs: 2", "epochs: 2, seed: 1");
  EXPECT_EQ(config_of(text, {}, true).run.seed, 1u);
  const Variable variable("MUSTER_RUN_SEED", "2");
  EXPECT_EQ(config_of(text, {}, true).run.seed, 2u);
  EXPECT_EQ(config_of(text, {"run.seed=3"}, true).run.seed, 3u);
  EXPECT_EQ(config_of(text, {"run.seed=3", "run.seed=4"}, true).run.seed, 4u);
  EXPECT_EQ(config_of(text, {}, false).run.seed, 1u);
}

TEST(Override, GoesBelowTheChosenKind) {
  const std::string adam = minimal + "optimizer: {adam: {lr: 0.5, beta1: 0.8}}\n";
  for (const char* set : {"optimizer.lr=.25", "optimizer.adam.lr=25e-2"}) {
    const auto optimizer = config_of(adam, {set}).optimizer;
    EXPECT_EQ(optimizer.kind, "adam");
    EXPECT_EQ(optimizer.lr, 0.25) << set;
    EXPECT_EQ(optimizer.beta1, 0.8);
  }
  EXPECT_EQ(config_of(minimal + "optimizer: nesterov\n", {"optimizer.lr=2"}).optimizer.kind, "nesterov");
  EXPECT_EQ(config_of(minimal + "optimizer: nesterov\n", {"optimizer.lr=2"}).optimizer.lr, 2.0);
  EXPECT_EQ(config_of(minimal + "optimizer:\n  nesterov:\n", {"optimizer.lr=2"}).optimizer.lr, 2.0);
  EXPECT_EQ(config_of(minimal, {"optimizer.lr=2"}).optimizer.kind, "sgd");
  EXPECT_EQ(config_of(minimal, {"schedule.warmup_steps=7"}).schedule.warmup_steps, 7);
  EXPECT_EQ(config_of(minimal + "schedule: {warmup_cosine: {warmup_epochs: 1}}\n", {"schedule.warmup_steps=7"})
                .schedule.warmup_epochs,
            0);
  EXPECT_EQ(config_of(minimal, {"model.loss.label_smoothing=0.1"}).model.loss.label_smoothing, 0.1f);
  EXPECT_EQ(config_of(adam, {"optimizer=sgd"}).optimizer.kind, "sgd");
  EXPECT_EQ(config_of(adam, {"optimizer={lamb: {lr: 3}}"}).optimizer.lr, 3.0);
}

TEST(Override, TheEnvironmentKnowsTheSamePaths) {
  const Variable lr("MUSTER_OPTIMIZER_LR", "0.125"), data("MUSTER_PARALLEL_GRID_DATA", "3"),
      file("MUSTER_DATA_TRAIN_FILE", "b.h5");
  const auto config = config_of(minimal + "optimizer: {adamw: {}}\n", {}, true);
  EXPECT_EQ(config.optimizer.lr, 0.125);
  EXPECT_EQ(config.optimizer.kind, "adamw");
  EXPECT_EQ(config.parallel.data, 3);
  EXPECT_EQ(config.data.train.files, Lines{"b.h5"});
}

TEST(Override, AVariableThatNamesNoKeyIsRefused) {
  const Variable variable("MUSTER_RUN_SED", "2"), foreign("MUSTER_PROGRESS", "1");
  EXPECT_EQ(problems_of(minimal, {}, true),
            Lines{"environment MUSTER_RUN_SED: names no key and nothing else that muster knows; unset it; did you mean "
                  "'MUSTER_RUN_SEED'?"});
  EXPECT_EQ(problems_of(minimal, {}, false), Lines{});
}

TEST(Override, NoVariableWithMustersPrefixIsPassedOver) {
  for (const char* name : {"MUSTER_OPTIMISER_LR", "MUSTER_NOPE_X", "MUSTER_DEVICE_", "MUSTER_", "MUSTER_PROGRES"}) {
    const Variable variable(name, "1");
    const Lines problems = problems_of(minimal, {}, true);
    ASSERT_EQ(problems.size(), 1u) << name;
    EXPECT_NE(problems[0].find(std::string("environment ") + name + ": names no key"), std::string::npos)
        << problems[0];
  }
  const Variable close("MUSTER_OPTIMISER_LR", "1");
  EXPECT_NE(problems_of(minimal, {}, true)[0].find("did you mean 'MUSTER_OPTIMIZER_LR'?"), std::string::npos);
}

TEST(Override, VariablesThatAreNoKeysAreAllInTheReadme) {
  std::ifstream file(source_folder() / "README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const char* name :
       {"MUSTER_PROGRESS", "MUSTER_STATUS_FILE", "MUSTER_SKIP_INSTALL", "MUSTER_FAKE_NODE_SIZE", "MUSTER_REDUCE",
        "MUSTER_SLOW_WORKER", "MUSTER_MPI_PIECE_BYTES", "MUSTER_CUDA_PLUGIN", "MUSTER_SOURCE", "MUSTER_BUILD"}) {
    const Variable variable(name, "1");
    EXPECT_EQ(problems_of(minimal, {}, true), Lines{}) << name;
    EXPECT_NE(readme.find(name), std::string::npos) << name;
  }
}

TEST(Override, TakesOutWhatItExcludes) {
  const auto steps = config_of(minimal, {"run.steps=5"}).run;
  EXPECT_EQ(steps.steps, 5);
  EXPECT_EQ(steps.epochs, 0);
  const auto synthetic = config_of(minimal, {"data.synthetic.samples=20"}).data;
  EXPECT_FALSE(synthetic.train.is_set());
  EXPECT_EQ(synthetic.synthetic.samples, 20);
  EXPECT_EQ(synthetic.synthetic.shape, (Shape{1, 6, 6}));
  const auto train = config_of(with("train: a.h5", "synthetic: {samples: 20}"), {"data.train=b.h5"}).data;
  EXPECT_EQ(train.synthetic.samples, 0);
  const auto files =
      config_of(with("train: a.h5", "train: {file: a.h5, inputs: x}"), {"data.train.files=[b.h5, c.h5]"}).data.train;
  EXPECT_EQ(files.files, (Lines{"b.h5", "c.h5"}));
  EXPECT_EQ(files.inputs, "x");
}

TEST(Override, AnEmptyValueTakesTheKeyOut) {
  const std::string text = with("epochs: 2", "epochs: 2, seed: 9");
  EXPECT_EQ(config_of(text, {"run.seed="}).run.seed, 0u);
  EXPECT_EQ(config_of(text, {"run.seed=null"}).run.seed, 0u);
  EXPECT_EQ(problems_of(minimal, {"data.batch="}), Lines{"c.yaml:3:3: data.batch: missing; expected integer >= 1"});
}

TEST(Override, MistakesNameTheirOrigin) {
  EXPECT_EQ(problems_of(minimal, {"optimizer.lr=abc"}),
            Lines{"--set optimizer.lr: optimizer.sgd.lr: expected number > 0, found 'abc'"});
  EXPECT_EQ(problems_of(minimal, {"optimizer.lrr=1"}),
            Lines{"--set optimizer.lrr: optimizer.sgd.lrr: unknown key; did you mean 'lr'?"});
  EXPECT_EQ(problems_of(minimal, {"rum.seed=1"}), Lines{"--set rum.seed: rum: unknown key; did you mean 'run'?"});
  EXPECT_EQ(problems_of(minimal, {"lr"}), Lines{"--set lr: expected key=value, e.g. --set optimizer.lr=0.01"});
  EXPECT_EQ(problems_of(minimal, {"=1"}), Lines{"--set =1: expected key=value, e.g. --set optimizer.lr=0.01"});
  EXPECT_EQ(problems_of(minimal, {"run.seed=[1"}).front(),
            "--set run.seed: run.seed: cannot read '[1' as a YAML value");
  EXPECT_EQ(problems_of(minimal, {"run.seed.x=1"}),
            Lines{"--set run.seed.x: run.seed: expected integer >= 0, found the map {x: 1}"});
  EXPECT_EQ(problems_of(with("epochs: 2", "epochs: 2, seed: 9"), {"run.seed.x=1"}),
            Lines{"c.yaml:1:24: run.seed: expected a map, found '9'; --set run.seed.x cannot go below it"});
  EXPECT_EQ(problems_of(minimal, {"model.layers.dense=1"}),
            Lines{"--set model.layers.dense: model.layers.dense: a list can only be given as a whole"});
  EXPECT_EQ(problems_of(minimal + "optimizer: {sgd: {lr: 1}}\n", {"optimizer.adam.lr=1"}),
            Lines{"--set optimizer.adam.lr: optimizer.adam.lr: the config does not use 'adam'; give it as a whole: "
                  "--set optimizer='{adam: {...}}'"});
  const Variable variable("MUSTER_DATA_BATCH", "x");
  EXPECT_EQ(problems_of(minimal, {}, true),
            Lines{"environment MUSTER_DATA_BATCH: data.batch: expected integer >= 1, found 'x'"});
}

TEST(Override, TheTableNamesTheOriginOfWhatDiffers) {
  const Variable variable("MUSTER_DATA_PREFETCH", "4");
  const Loaded loaded = load_text(minimal + "optimizer: {sgd: {lr: 0.01}}\n", "c.yaml",
                                  {{"optimizer.clip_norm=5", "run.reproducible=bitwise"}, true});
  const auto line = [](const std::string& path, const std::string& value, const std::string& origin) {
    return fmt::format("{:<32} {:<24} ({})", path, value, origin);
  };
  EXPECT_EQ(
      loaded.table,
      (Lines{line("run.epochs", "2", "c.yaml:1"), line("run.reproducible", "bitwise", "--set run.reproducible"),
             line("run.directory", "runs/run", "follows from other keys"),
             line("device.threads", "1", "follows from other keys"), line("data.train.files", "[a.h5]", "c.yaml:3"),
             line("data.batch", "8", "c.yaml:4"), line("data.prefetch", "4", "environment MUSTER_DATA_PREFETCH"),
             line("model.input", "[1, 6, 6]", "c.yaml:6"), line("model.layers", "2 layers", "c.yaml:8"),
             line("optimizer.sgd.clip_norm", "5", "--set optimizer.clip_norm")}));
  const Loaded other = load_quietly(minimal + "optimizer: adam\n");
  EXPECT_EQ(other.table.back(), line("optimizer", "adam", "c.yaml:10"));
}

TEST(Override, EveryPathHasAVariableOfItsOwn) {
  const auto paths = override_paths();
  EXPECT_GT(paths.size(), 50u);
  Lines variables;
  for (std::string path : paths) {
    std::replace(path.begin(), path.end(), '.', '_');
    EXPECT_EQ(std::count(variables.begin(), variables.end(), path), 0) << path;
    variables.push_back(path);
  }
}

}  // namespace
}  // namespace muster::config::testing
