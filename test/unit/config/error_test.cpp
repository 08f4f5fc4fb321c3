// Each kind of mistake with its exact file:line:column, and all of them at once.
#include "testing.hpp"

namespace muster::config::testing {
namespace {

TEST(Errors, TheMinimalConfigIsGood) { EXPECT_EQ(problems_of(minimal), Lines{}); }

TEST(Errors, UnknownKeys) {
  EXPECT_EQ(problems_of(with("epochs: 2", "epochs: 2, sed: 4")),
            Lines{"c.yaml:1:18: run.sed: unknown key; did you mean 'seed'?"});
  EXPECT_EQ(problems_of(minimal + "optimiser: sgd\n"),
            Lines{"c.yaml:10:1: optimiser: unknown key; did you mean 'optimizer'?"});
  EXPECT_EQ(problems_of(minimal + "batch: 5\n"), Lines{"c.yaml:10:1: batch: unknown key; did you mean 'data.batch'?"});
  EXPECT_EQ(problems_of(minimal + "checkpoint: {xyzzy: 5}\n"),
            Lines{"c.yaml:10:14: checkpoint.xyzzy: unknown key; known here: every, keep"});
  EXPECT_EQ(problems_of(minimal + "parallel: {grid: {dada: 1}}\n"),
            Lines{"c.yaml:10:19: parallel.grid.dada: unknown key; did you mean 'data'?"});
  EXPECT_EQ(problems_of(with("{units: 10}", "{unit: 10, units: 10}")),
            Lines{"c.yaml:9:15: model.layers[1].dense.unit: unknown key; did you mean 'units'?"});
  EXPECT_EQ(problems_of(minimal + "<<: {a: 1}\n"),
            Lines{"c.yaml:10:1: <<: merge keys are not read: write the keys out, or use an alias for the whole value"});
}

TEST(Errors, DuplicateKeys) {
  EXPECT_EQ(problems_of(with("epochs: 2", "epochs: 2, epochs: 3")),
            Lines{"c.yaml:1:18: run.epochs: duplicate key, first given at 1:7"});
  EXPECT_EQ(problems_of(minimal + "run: {seed: 1}\n"), Lines{"c.yaml:10:1: run: duplicate key, first given at 1:1"});
  EXPECT_EQ(problems_of(with("{units: 10}", "{units: 10, units: 10}")),
            Lines{"c.yaml:9:26: model.layers[1].dense.units: duplicate key, first given at 9:15"});
}

TEST(Errors, WrongTypes) {
  const auto refusal = [](const std::string& value) { return problems_of(with("batch: 8", "batch: " + value)); };
  EXPECT_EQ(refusal("many"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found 'many'"});
  EXPECT_EQ(refusal("8.0"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found '8.0'"});
  EXPECT_EQ(refusal("1_000"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found '1_000'"});
  EXPECT_EQ(refusal("0x10"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found '0x10'"});
  EXPECT_EQ(refusal("\"8\""), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found the string '8'"});
  EXPECT_EQ(refusal("[8]"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found the list [8]"});
  EXPECT_EQ(refusal("{a: 8}"), Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found the map {a: 8}"});
  EXPECT_EQ(refusal(""), Lines{"c.yaml:4:3: data.batch: expected integer >= 1, found nothing"});
  EXPECT_EQ(problems_of(minimal + "device: {tune: on}\n"),
            Lines{"c.yaml:10:16: device.tune: expected true or false, found 'on'"});
  EXPECT_EQ(problems_of(minimal + "device: cpu\n").front().substr(0, 55),
            "c.yaml:10:9: device: expected a map of kind, threads, p");
  EXPECT_EQ(problems_of(with("[1, 6, 6]", "[1, x, 6]")),
            Lines{"c.yaml:6:14: model.input[1]: expected integer >= 1, found 'x'"});
}

TEST(Errors, OutOfRange) {
  EXPECT_EQ(problems_of(with("batch: 8", "batch: 0")),
            Lines{"c.yaml:4:10: data.batch: expected integer >= 1, found '0'"});
  EXPECT_EQ(problems_of(minimal + "optimizer: {momentum: {momentum: 1}}\n"),
            Lines{"c.yaml:10:34: optimizer.momentum.momentum: expected number in [0, 1), found '1'"});
  EXPECT_EQ(problems_of(minimal + "optimizer: {sgd: {lr: 0}}\n"),
            Lines{"c.yaml:10:23: optimizer.sgd.lr: expected number > 0, found '0'"});
  EXPECT_EQ(problems_of(minimal + "checkpoint: {keep: 99999999999}\n"),
            Lines{"c.yaml:10:20: checkpoint.keep: expected integer >= 1, found '99999999999'"});
  EXPECT_EQ(problems_of(minimal + "device: {kind: gpu}\n"),
            Lines{"c.yaml:10:16: device.kind: expected auto | cpu | cuda | ref, found 'gpu'; did you mean 'cpu'?"});
}

TEST(Errors, WhatAGpuCannotDo) {
  const std::string config = minimal + "device: {kind: cuda}\n";
  EXPECT_EQ(problems_of(config), Lines{});
  EXPECT_EQ(problems_of(config + "parallel: {grid: {pipeline: 2}}\n", {"run.accumulate=2"}),
            Lines{"c.yaml:11:29: parallel.grid.pipeline: 2 stages need device.kind: cpu, found cuda; use 1"});
  EXPECT_EQ(problems_of(config + "parallel: {shard: optimizer}\noptimizer: {adam: {lr: 0.1}}\n"),
            Lines{"c.yaml:11:19: parallel.shard: optimizer needs device.kind: cpu, found cuda; use none"});
  EXPECT_EQ(problems_of(config + "parallel: {strategy: parameter_server, servers: 1}\n"),
            Lines{"c.yaml:10:16: device.kind: with parallel.strategy: parameter_server workers and servers compute on "
                  "the CPU, found cuda; use cpu, or mirrored or multi_worker_mirrored"});
}

TEST(Errors, WhatAPipelineCannotDo) {
  EXPECT_EQ(problems_of(minimal + "parallel: {grid: {pipeline: 2}}\n"),
            Lines{"c.yaml:10:29: run.accumulate: a pipeline of 2 stages needs at least 2 micro-batches, found 1"});
  EXPECT_EQ(problems_of(minimal + "parallel: {grid: {pipeline: 2}, wire: bf16}\n", {"run.accumulate=2"}),
            Lines{"c.yaml:10:39: parallel.wire: bf16 cannot go with parallel.grid.pipeline > 1, whose messages between "
                  "stages are fp32; use fp32"});
  EXPECT_EQ(problems_of(minimal + "parallel: {pipeline_schedule: gpipe}\n"),
            Lines{"c.yaml:10:31: parallel.pipeline_schedule: means nothing with parallel.grid.pipeline: 1; remove it"});
  EXPECT_EQ(problems_of(minimal + "parallel: {grid: {pipeline: 2}, strategy: parameter_server, servers: 1}\n").front(),
            "c.yaml:10:29: parallel.grid.pipeline: means nothing with parallel.strategy: parameter_server; remove it");
}

TEST(Errors, WhatThisVersionDoesNotHonour) {
  EXPECT_EQ(problems_of(minimal + "device: {precision: bf16}\n"),
            Lines{"c.yaml:10:21: device.precision: 'bf16' is not available in this version; expected fp32"});
  EXPECT_EQ(problems_of(minimal + "parallel: {grid: {tensor: 4}}\n"),
            Lines{"c.yaml:10:27: parallel.grid.tensor: more than 1 is not available in this version"});
  EXPECT_EQ(problems_of(minimal + "sweep: {}\n"),
            Lines{"c.yaml:10:1: sweep: describes many runs: start them with muster sweep"});
}

TEST(Errors, ServersWithoutAndWithTheirStrategy) {
  const std::string rest = "means nothing with parallel.strategy: mirrored; remove it, or use parameter_server";
  EXPECT_EQ(
      problems_of(minimal + "parallel: {servers: 1, spares: 2, staleness: unbounded, longest_lease: 3, "
                            "heartbeat_deadline_s: 5, transport: general}\n"),
      (Lines{"c.yaml:10:21: parallel.servers: " + rest, "c.yaml:10:32: parallel.spares: " + rest,
             "c.yaml:10:46: parallel.staleness: " + rest, "c.yaml:10:72: parallel.longest_lease: " + rest,
             "c.yaml:10:97: parallel.heartbeat_deadline_s: " + rest, "c.yaml:10:111: parallel.transport: " + rest}));
  EXPECT_EQ(problems_of(minimal + "parallel: {staleness_scaling: inverse}\n"),
            Lines{"c.yaml:10:31: parallel.staleness_scaling: " + rest});
  EXPECT_EQ(problems_of(minimal + "parallel: {delay_compensation: .5}\n"),
            Lines{"c.yaml:10:32: parallel.delay_compensation: " + rest});
  EXPECT_EQ(problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, delay_compensation: -1}\n"),
            Lines{"c.yaml:10:72: parallel.delay_compensation: expected number >= 0, found '-1'"});
  EXPECT_EQ(problems_of(minimal + "parallel: {push_every: 2}\n"), Lines{"c.yaml:10:24: parallel.push_every: " + rest});
  EXPECT_EQ(problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, push_every: 0}\n"),
            Lines{"c.yaml:10:64: parallel.push_every: expected integer in [1, 1048576], found '0'"});
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, push_every: 3, lock_step_until: 9, "
                            "delay_compensation: .5}\n"),
      (Lines{
          "c.yaml:10:84: parallel.lock_step_until: cannot go with parallel.push_every: 3: in lock-step every update "
          "is made of one batch; remove one of the two",
          "c.yaml:10:107: parallel.delay_compensation: cannot go with parallel.push_every: 3: it corrects gradients, "
          "and what is pushed are changes of the weights; remove one of the two"}));
  EXPECT_EQ(problems_of(minimal + "parallel: {elastic: .5}\n"), Lines{"c.yaml:10:21: parallel.elastic: " + rest});
  EXPECT_EQ(problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, elastic: 2}\n"),
            Lines{"c.yaml:10:61: parallel.elastic: expected number in [0, 1], found '2'"});
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, elastic: .5, staleness_scaling: "
                            "inverse}\n"),
      Lines{"c.yaml:10:84: parallel.staleness_scaling: cannot go with parallel.elastic: 0.5: the servers' weights "
            "must go as far as the worker's; remove one of the two"});
  const std::string idle =
      "means nothing with parallel.staleness: 0, where every update is made in lock-step; remove it";
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, staleness: 0, "
                            "staleness_scaling: inverse, lock_step_until: 9, longest_lease: 3, delay_compensation: 1, "
                            "push_every: 2, elastic: .5}\n"),
      (Lines{"c.yaml:10:85: parallel.staleness_scaling: " + idle, "c.yaml:10:111: parallel.lock_step_until: " + idle,
             "c.yaml:10:129: parallel.longest_lease: " + idle, "c.yaml:10:152: parallel.delay_compensation: " + idle,
             "c.yaml:10:167: parallel.push_every: " + idle, "c.yaml:10:179: parallel.elastic: " + idle}));
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server}\n"),
      Lines{"c.yaml:1:1: parallel.servers: missing with parallel.strategy: parameter_server; set it to 1 or more"});
  EXPECT_EQ(problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, staleness: -1}\n"),
            Lines{"c.yaml:10:63: parallel.staleness: expected unbounded | integer >= 0, found '-1'"});
  const std::string bitwise = "run.reproducible: bitwise needs workers that wait for each other";
  const std::string minimal_bitwise = with("{epochs: 2}", "{epochs: 2, reproducible: bitwise}");
  const std::string servers = "parallel: {strategy: parameter_server, servers: 2, staleness: ";
  EXPECT_EQ(problems_of(minimal_bitwise + servers + "0}\n"), Lines{});
  EXPECT_NE(problems_of(minimal_bitwise + servers + "1}\n").at(0).find(bitwise), std::string::npos);
  EXPECT_NE(problems_of(minimal_bitwise + servers + "0}\noptimizer: {lamb: {lr: 1, clip_norm: 1}}\n")
                .at(0)
                .find("parallel.servers: bitwise mode with optimizer.clip_norm and lamb needs one server, found 2"),
            std::string::npos);
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, lr_scaling: linear, wire: bf16}\n")
          .size(),
      1u);
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, lock_step_until: 9, wire: bf16}\n"),
      Lines{"c.yaml:10:78: parallel.wire: bf16 cannot go with parallel.lock_step_until: 9: shares of a batch are "
            "pushed as fp32; use fp32"});
  EXPECT_EQ(
      problems_of(minimal + "parallel: {strategy: parameter_server, servers: 1, staleness: 0, wire: bf16}\n"),
      Lines{"c.yaml:10:72: parallel.wire: bf16 cannot go with parallel.staleness: 0: shares of a batch are pushed "
            "as fp32; use fp32"});
}

TEST(Errors, MissingAndExclusiveKeys) {
  EXPECT_EQ(problems_of(with("epochs: 2", "seed: 2")),
            Lines{"c.yaml:1:1: run.epochs: missing the length of training; expected run.epochs or run.steps"});
  EXPECT_EQ(problems_of(with("epochs: 2", "epochs: 2, steps: 5")),
            Lines{"c.yaml:1:25: run.steps: excludes 'run.epochs': give one of the two"});
  EXPECT_EQ(problems_of(with("  batch: 8\n", "")), Lines{"c.yaml:3:3: data.batch: missing; expected integer >= 1"});
  EXPECT_EQ(problems_of(with("  train: a.h5\n", "")),
            Lines{"c.yaml:1:1: data.train: missing; expected data.train or data.synthetic"});
  EXPECT_EQ(problems_of(with("  batch: 8\n", "  batch: 8\n  synthetic: {samples: 9}\n")),
            Lines{"c.yaml:3:10: data.train: excludes data.synthetic: give one of the two"});
  EXPECT_EQ(problems_of(with("{units: 10}", "{bias: no}")),
            Lines{"c.yaml:9:14: model.layers[1].dense.units: missing; expected integer >= 1"});
  EXPECT_EQ(problems_of(with("train: a.h5", "train: {file: a.h5, files: [b.h5]}")),
            Lines{"c.yaml:3:30: data.train.files: excludes 'file': give one of the two"});
  EXPECT_EQ(problems_of(with("train: a.h5", "train: {inputs: x}")),
            Lines{"c.yaml:3:10: data.train: expected a file, found none; add file: or files:"});
  EXPECT_EQ(problems_of("{}\n"),
            (Lines{"c.yaml:1:1: data.batch: missing; expected integer >= 1",
                   "c.yaml:1:1: model.input: missing; expected a list of extents >= 1, e.g. [1, 28, 28]",
                   "c.yaml:1:1: model.layers: missing; expected list of layers",
                   "c.yaml:1:1: run.epochs: missing the length of training; expected run.epochs or run.steps",
                   "c.yaml:1:1: data.train: missing; expected data.train or data.synthetic"}));
  EXPECT_EQ(problems_of("").size(), 5u);
  EXPECT_EQ(problems_of("just text\n").front().substr(0, 36), "c.yaml:1:1: expected a map of run, p");
}

TEST(Errors, Kinds) {
  EXPECT_EQ(problems_of(minimal + "optimizer: adamv\n"),
            Lines{"c.yaml:10:12: optimizer: unknown 'adamv'; did you mean 'adam'?"});
  EXPECT_EQ(problems_of(minimal + "optimizer: {sgd: {lr: 1}, adam: {lr: 1}}\n"),
            Lines{"c.yaml:10:27: optimizer: expected one of sgd, momentum, nesterov, rmsprop, adam, adamw, lars, lamb "
                  "with its keys below it, found 2 keys: sgd, adam"});
  EXPECT_EQ(
      problems_of(minimal + "optimizer: {sgd: {momentum: 0.9}}\n"),
      Lines{
          "c.yaml:10:19: optimizer.sgd.momentum: not a key of this optimizer; it belongs to momentum, nesterov, lars"});
  EXPECT_EQ(problems_of(minimal + "optimizer:\n  sgd:\n  lr: 1\n"),
            Lines{"c.yaml:12:3: optimizer: expected one of sgd, momentum, nesterov, rmsprop, adam, adamw, lars, lamb "
                  "with its keys below it, "
                  "found 2 keys: sgd, lr; indent 'lr' below 'sgd'"});
  EXPECT_EQ(
      problems_of(minimal + "schedule: {constant: {gamma: 0.9}}\n"),
      Lines{"c.yaml:10:23: schedule.constant.gamma: not a key of this schedule; it belongs to step, exponential"});
  EXPECT_EQ(problems_of(minimal + "schedule: warmup_cosine\n"),
            Lines{"c.yaml:10:11: schedule.warmup_cosine: missing the length of the warm-up; expected warmup_epochs or "
                  "warmup_steps"});
  EXPECT_EQ(problems_of(minimal + "schedule: {cosine: {warmup_epochs: 1, warmup_steps: 1}}\n"),
            Lines{"c.yaml:10:53: schedule.cosine.warmup_steps: excludes 'warmup_epochs': give one of the two"});
  EXPECT_EQ(problems_of(minimal + "schedule: {step: {at_epochs: [3, 3]}}\n"),
            Lines{"c.yaml:10:30: schedule.step.at_epochs: expected rising boundaries"});
  EXPECT_EQ(problems_of(minimal + "checkpoint: {every: 5}\n"),
            Lines{"c.yaml:10:21: checkpoint.every: expected 'N steps', 'N epochs' or never, found '5'"});
  EXPECT_EQ(problems_of(minimal + "log: {every: 0 steps}\n"),
            Lines{"c.yaml:10:14: log.every: expected 'N steps', 'N epochs' or never, found '0 steps'"});
}

TEST(Errors, Transforms) {
  const auto refusal = [](const std::string& list) {
    return problems_of(with("batch: 8", "batch: 8\n  transforms: " + list));
  };
  EXPECT_EQ(refusal("[horizontal_flip, normalise]"), Lines{"c.yaml:5:33: data.transforms[1]: 'normalise' comes after "
                                                           "'horizontal_flip'; transforms are applied in the order "
                                                           "normalise, random_crop, horizontal_flip, cutout"});
  EXPECT_EQ(refusal("[normalise, normalise]"),
            Lines{"c.yaml:5:27: data.transforms[1]: 'normalise' is given twice; transforms are applied in the order "
                  "normalise, random_crop, horizontal_flip, cutout"});
  EXPECT_EQ(refusal("[random_crop]"),
            Lines{"c.yaml:5:16: data.transforms[0].random_crop.padding: missing; expected integer in [1, 65535]"});
  EXPECT_EQ(refusal("[{normalise: {mean: 0.5}}]"),
            Lines{"c.yaml:5:16: data.transforms[0]: expected both mean and std, or none of them, found one"});
  EXPECT_EQ(
      refusal("[{normalise: {mean: [0, 0, 0], std: [1, 1, 1]}}]"),
      Lines{"c.yaml:5:15: data.transforms: normalise: expected one value or 1 (channels of model.input), found 3"});
  EXPECT_EQ(refusal("[{cutout: {size: 7}}]"),
            Lines{"c.yaml:5:15: data.transforms: cutout: a square of 7 does not fit into the image [1, 6, 6]"});
  EXPECT_EQ(refusal("{normalise: {}}"), Lines{"c.yaml:5:15: data.transforms: expected a list of normalise, "
                                              "random_crop, horizontal_flip, cutout, found the map {normalise: {}}"});
}

TEST(Errors, BitwiseExcludesWhatChangesBits) {
  const std::string bitwise = with("epochs: 2", "epochs: 2, reproducible: bitwise");
  EXPECT_EQ(problems_of(bitwise), Lines{});
  EXPECT_EQ(problems_of(bitwise + "parallel: {wire: bf16, grains: 9}\ndevice: {tune: yes}\n"),
            (Lines{"c.yaml:10:18: parallel.wire: bf16 cannot go with run.reproducible: bitwise; use fp32 or fast",
                   "c.yaml:10:32: parallel.grains: expected at most data.batch = 8, found 9",
                   "c.yaml:11:16: device.tune: cannot go with run.reproducible: bitwise: the kernels chosen could "
                   "differ between runs"}));
  EXPECT_EQ(
      problems_of(with("epochs: 2", "epochs: 2, reproducible: bitwise, accumulate: 2")),
      Lines{"c.yaml:1:53: run.accumulate: cannot go with run.reproducible: bitwise; raise parallel.grains instead"});
  EXPECT_EQ(problems_of(minimal + "parallel: {grains: 4}\n"),
            Lines{"c.yaml:10:20: parallel.grains: means nothing without run.reproducible: bitwise; remove it"});
}

TEST(Errors, BatchNormAndBatch) {
  const std::string norm = with_layers(
      "    - batch_norm: {scope: {group: 3}}\n    - batch_norm: {scope: {group: 2}}\n    - dense: {units: 2}\n");
  EXPECT_EQ(problems_of(norm), Lines{"c.yaml:4:10: data.batch: expected a multiple of 6, the group of batch_norm "
                                     "(least common multiple of all), found 8"});
  std::string global = with_layers("    - residual: {main: [batch_norm]}\n    - dense: {units: 2}\n");
  global.replace(global.find("epochs: 2"), 9, "epochs: 2, accumulate: 2");
  EXPECT_EQ(problems_of(global), Lines{"c.yaml:1:30: run.accumulate: saves no memory with batch_norm of global scope, "
                                       "which needs the whole batch at once; use scope: {group: k}"});
}

TEST(Errors, SyntaxIsTheOnlyOneOfItsFile) {
  EXPECT_EQ(problems_of("run: [1\n"), Lines{"c.yaml:2:1: YAML syntax: end of sequence flow not found"});
  EXPECT_EQ(problems_of("run:\n\tepochs: 2\n"), Lines{"c.yaml:2:8: YAML syntax: a tab in the indentation; use spaces"});
  EXPECT_EQ(problems_of(minimal + "---\nrun: {}\n"), Lines{"c.yaml:11:1: expected one document, found a second one"});
  EXPECT_EQ(problems_of(minimal + "log: {every: !int 5}\n").front(),
            "c.yaml:10:14: the tag !int means nothing here: remove it");
}

TEST(Errors, AllAtOnceInTheOrderOfTheFile) {
  const std::string text =
      "run: {epochs: two, nme: x}\n"
      "parallel: {wire: fp8}\n"
      "data: {train: a.h5, batch: -1, shuffle: {block: {window: 0}}}\n"
      "model:\n"
      "  input: [1, 6, 6]\n"
      "  layers: [flaten, {dense: {units: 0}}]\n"
      "  loss: hinge\n"
      "optimizer: {adam: {beta1: 2}}\n";
  EXPECT_EQ(problems_of(text), (Lines{"c.yaml:1:15: run.epochs: expected integer in [1, 1000000], found 'two'",
                                      "c.yaml:1:20: run.nme: unknown key; did you mean 'name'?",
                                      "c.yaml:2:18: parallel.wire: expected fp32 | bf16, found 'fp8'",
                                      "c.yaml:3:28: data.batch: expected integer >= 1, found '-1'",
                                      "c.yaml:3:49: data.shuffle.block.size: missing; expected integer >= 1",
                                      "c.yaml:3:58: data.shuffle.block.window: expected integer >= 1, found '0'",
                                      "c.yaml:6:12: model.layers[0]: unknown 'flaten'; did you mean 'flatten'?",
                                      "c.yaml:6:36: model.layers[1].dense.units: expected integer >= 1, found '0'",
                                      "c.yaml:7:9: model.loss: unknown 'hinge'; expected one of softmax_cross_entropy, "
                                      "binary_cross_entropy, mean_squared_error",
                                      "c.yaml:8:27: optimizer.adam.beta1: expected number in [0, 1), found '2'"}));
}

TEST(Errors, FilesThatCannotBeRead) {
  for (const std::string file : {"/nonexistent/c.yaml", "/"}) {
    try {
      load(file, {{}, false});
      FAIL() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
  }
}

TEST(Errors, ShardsThatCannotBeHad) {
  const std::string adam = minimal + "optimizer: adam\n";
  EXPECT_EQ(problems_of(adam + "parallel: {shard: optimizer}\n"), Lines{});
  EXPECT_EQ(problems_of(adam + "parallel: {shard: gradients}\n"),
            Lines{"c.yaml:11:19: parallel.shard: gradients is not available in this version; use optimizer or none"});
  EXPECT_EQ(problems_of(adam + "parallel: {shard: parameters}\n"),
            Lines{"c.yaml:11:19: parallel.shard: parameters is not available in this version; use optimizer or none"});
  EXPECT_EQ(problems_of(minimal + "optimizer: sgd\nparallel: {shard: optimizer}\n"),
            Lines{"c.yaml:11:19: parallel.shard: sgd keeps no state, so there is nothing to shard; use none"});
  EXPECT_EQ(problems_of(adam + "parallel: {strategy: parameter_server, servers: 1, shard: optimizer}\n"),
            Lines{"c.yaml:11:59: parallel.shard: means nothing with parallel.strategy: parameter_server, where "
                  "parallel.servers share the state; remove it"});
}

}  // namespace
}  // namespace muster::config::testing
