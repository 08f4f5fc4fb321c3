// Sections read into their structs, field by field, and values in their many forms.
#include "testing.hpp"

namespace muster::config::testing {
namespace {

TEST(Value, EverySectionReachesItsStruct) {
  const auto c = load_quietly(
                     "run: {name: n, seed: 18446744073709551615, steps: 7, reproducible: fast, directory: d, "
                     "accumulate: 2, deadline_s: 1.5, max_loss: 9}\n"
                     "parallel: {strategy: multi_worker_mirrored, grid: {data: 2, pipeline: 1, tensor: 1}, wire: bf16, "
                     "lr_scaling: sqrt, bucket_kib: 64, "
                     "allow_oversubscribe: yes}\n"
                     "device: {kind: ref, threads: 3, precision: fp32, tune: true}\n"
                     "data:\n"
                     "  train: {files: [a.h5, b.h5], inputs: x, targets: y, range: [10, 20]}\n"
                     "  test: t.h5\n"
                     "  batch: 8\n"
                     "  test_batch: 16\n"
                     "  shuffle: {block: {size: 4, window: 2}}\n"
                     "  transforms: [{normalise: {mean: 0.5, std: [.25]}}, {random_crop: {padding: 2}}, "
                     "{horizontal_flip: {probability: .1}}, {cutout: {size: 3}}]\n"
                     "  prefetch: 5\n"
                     "  check_finite: no\n"
                     "model: {input: [1, 6, 6], layers: [flatten, {dense: {units: 9}}], loss: {softmax_cross_entropy: "
                     "{label_smoothing: .1}}, metrics: {top_k: 5}}\n"
                     "optimizer: {lars: {lr: 1e-1, momentum: .8, trust_coefficient: 2e-3, weight_decay: 1e-4, "
                     "no_decay: [bias], clip_norm: 1.}}\n"
                     "schedule: {polynomial: {power: 2, min_factor: 0.1, warmup_steps: 5, warmup_start: 0.2}}\n"
                     "checkpoint: {every: 10 steps, keep: 1}\n"
                     "log: {every: 0.5 epochs}\n"
                     "eval: {every: never}\n")
                     .config;
  EXPECT_EQ(c.run.name, "n");
  EXPECT_EQ(c.run.seed, 18446744073709551615u);
  EXPECT_EQ(c.run.steps, 7);
  EXPECT_EQ(c.run.epochs, 0);
  EXPECT_EQ(c.run.directory, "d");
  EXPECT_EQ(c.run.accumulate, 2);
  EXPECT_EQ(c.run.deadline_s, 1.5);
  EXPECT_EQ(c.run.max_loss, 9);
  EXPECT_EQ(c.parallel.strategy, "multi_worker_mirrored");
  EXPECT_EQ(c.parallel.data, 2);
  EXPECT_EQ(c.parallel.wire, "bf16");
  EXPECT_EQ(c.parallel.lr_scaling, "sqrt");
  EXPECT_EQ(c.parallel.bucket_kib, 64);
  EXPECT_TRUE(c.parallel.allow_oversubscribe);
  EXPECT_EQ(c.device.kind, "ref");
  EXPECT_EQ(c.device.threads, 3);
  EXPECT_TRUE(c.device.tune);
  EXPECT_EQ(c.data.train.files, (Lines{"a.h5", "b.h5"}));
  EXPECT_EQ(c.data.train.inputs, "x");
  EXPECT_EQ(c.data.train.targets, "y");
  EXPECT_EQ(c.data.train.range, (Range{10, 20}));
  EXPECT_EQ(c.data.test.files, Lines{"t.h5"});
  EXPECT_EQ(c.data.test.inputs, "images");
  EXPECT_EQ(c.data.test_batch, 16);
  EXPECT_EQ(c.data.shuffle.kind, dataset::ShuffleOptions::Kind::block);
  EXPECT_EQ(c.data.shuffle.block, 4);
  EXPECT_EQ(c.data.shuffle.window, 2);
  ASSERT_TRUE(c.data.transforms.normalise && c.data.transforms.random_crop && c.data.transforms.horizontal_flip &&
              c.data.transforms.cutout);
  EXPECT_FALSE(c.data.transforms.normalise->is_auto);
  EXPECT_EQ(c.data.transforms.normalise->mean, std::vector<double>{0.5});
  EXPECT_EQ(c.data.transforms.normalise->std, std::vector<double>{0.25});
  EXPECT_EQ(c.data.transforms.random_crop->padding, 2);
  EXPECT_EQ(c.data.transforms.horizontal_flip->probability, 0.1);
  EXPECT_EQ(c.data.transforms.cutout->size, 3);
  EXPECT_EQ(c.data.prefetch, 5);
  EXPECT_FALSE(c.data.check_finite);
  EXPECT_EQ(c.model.loss.label_smoothing, 0.1f);
  EXPECT_EQ(c.model.top_k, 5);
  EXPECT_EQ(c.optimizer.kind, "lars");
  EXPECT_EQ(c.optimizer.lr, 0.1);
  EXPECT_EQ(c.optimizer.momentum, 0.8);
  EXPECT_EQ(c.optimizer.trust_coefficient, 0.002);
  EXPECT_EQ(c.optimizer.no_decay, Lines{"bias"});
  EXPECT_EQ(c.optimizer.clip_norm, 1);
  EXPECT_EQ(c.schedule.kind, "polynomial");
  EXPECT_EQ(c.schedule.power, 2);
  EXPECT_EQ(c.schedule.warmup_steps, 5);
  EXPECT_EQ(c.schedule.warmup_start, 0.2);
  EXPECT_EQ(c.checkpoint.every.steps, 10);
  EXPECT_EQ(c.checkpoint.keep, 1);
  EXPECT_EQ(c.log.every.epochs, 0.5);
  EXPECT_FALSE(c.eval.every.is_set());
}

TEST(Value, DefaultsOfOptimizersArePyTorchs) {
  const auto optimizer = [](const std::string& text) {
    return load_quietly(minimal + "optimizer: " + text + "\n").config.optimizer;
  };
  EXPECT_EQ(optimizer("adam").lr, 1e-3);
  EXPECT_EQ(optimizer("adam").weight_decay, 0);
  EXPECT_EQ(optimizer("adamw").weight_decay, 1e-2);
  EXPECT_EQ(optimizer("{adamw: }").beta2, 0.999);
  EXPECT_EQ(optimizer("sgd").momentum, 0);
  EXPECT_EQ(optimizer("rmsprop").decay_rate, 0.99);
  EXPECT_EQ(optimizer("{nesterov: {lr: +1}}").momentum, 0.9);
}

TEST(Value, EveryKindOfOptimizerAndScheduleIsKnownHere) {
  for (const std::string& kind : optim::optimizer_kinds())
    EXPECT_EQ(problems_of(minimal + "optimizer: " + kind + "\n"), Lines{}) << kind;
  for (const std::string& kind : optim::schedule_kinds()) {
    const std::string keys = kind == "step" ? "at_epochs: [1, 2], " : "";
    EXPECT_EQ(load_quietly(minimal + "schedule: {" + kind + ": {" + keys + "warmup_steps: 3}}\n").config.schedule.kind,
              kind);
    EXPECT_EQ(load_quietly(minimal + "schedule: {warmup_" + kind + ": {" + keys + "warmup_epochs: .5}}\n")
                  .config.schedule.kind,
              kind);
  }
}

TEST(Value, WhatFollowsFromOtherKeys) {
  EXPECT_EQ(load_quietly(minimal).config.run.directory, "runs/run");
  EXPECT_EQ(load_quietly(minimal, {"run.name=x"}).config.run.directory, "runs/x");
  EXPECT_EQ(load_quietly(minimal).config.device.threads, 0);
  EXPECT_EQ(load_quietly(minimal, {"run.reproducible=bitwise"}).config.device.threads, 1);
  EXPECT_EQ(load_quietly(minimal, {"run.reproducible=bitwise", "device.threads=2"}).config.device.threads, 2);
  EXPECT_EQ(problems_of(minimal, {"data.synthetic={samples: 4, shape: [36]}"}),
            Lines{"--set data.synthetic: data.synthetic.shape: expected model.input = [1, 6, 6], found [36]"});
}

TEST(Value, AliasesServeForRepeatedValues) {
  const auto data =
      load_quietly(with("train: a.h5", "train: &source {file: a.h5, inputs: x}\n  test: *source")).config.data;
  EXPECT_EQ(data.test.files, data.train.files);
  EXPECT_EQ(data.test.inputs, "x");
}

}  // namespace
}  // namespace muster::config::testing
