// The sections of the config that belong to the run as a whole, and the whole config as one value.
#pragma once

#include <muster/dataset/options.hpp>
#include <muster/device/options.hpp>
#include <muster/model/layers.hpp>
#include <muster/optim/optimizer.hpp>
#include <muster/parallel/options.hpp>

#include <cstdint>
#include <string>

namespace muster::train {

/// A length in steps or epochs: "500 steps", "1 epoch", "2.5 epochs".
struct Every {
  double epochs = 0;
  std::int64_t steps = 0;
  bool is_set() const { return epochs > 0 || steps > 0; }
};

/// When a run has to be over.
struct WallTime {
  bool is_auto = true;  ///< at the end of the Slurm job, where there is one
  double seconds = 0;   ///< otherwise: after this long, at the latest at the end of the job; 0: never
};

struct RunOptions {
  std::string name = "run";
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  ///< one of epochs, steps
  std::int64_t steps = 0;
  std::string reproducible = "fast";  ///< bitwise | fast
  std::string directory;              ///< default: runs/<name>
  std::int64_t accumulate = 1;        ///< micro-batches per replica and step (fast mode)
  double deadline_s = 300;            ///< limit of every wait for other ranks
  WallTime wall_time;                 ///< the state is saved before it is over
  double max_loss = 0;                ///< loss guard: a mean training loss above this is divergence; 0: off
};

struct CheckpointOptions {
  Every every{1.0, 0};
  int keep = 3;
};

struct LogOptions {
  Every every{0, 50};  ///< interval of metrics and log lines
  bool tensorboard = false;
};

struct EvalOptions {
  Every every{1.0, 0};  ///< evaluation on data.test, where there is one
};

struct Config {
  RunOptions run;
  parallel::ParallelOptions parallel;
  device::DeviceOptions device;
  dataset::DataOptions data;
  model::ModelOptions model;
  optim::OptimizerOptions optimizer;
  optim::ScheduleOptions schedule;
  CheckpointOptions checkpoint;
  LogOptions log;
  EvalOptions eval;
};

}  // namespace muster::train
