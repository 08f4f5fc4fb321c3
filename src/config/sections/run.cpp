// run: name, length, seed, reproducibility.
#include "config/table.hpp"

namespace muster::config {

std::vector<ConfigKey> run_keys() {
  return {
      key<Config>(
          "run.name", [](Config & c) -> auto& { return c.run.name; }, {}, "name of the run; part of its directory"),
      key<Config>(
          "run.seed", [](Config & c) -> auto& { return c.run.seed; }, at_least(0),
          "start weights, order of samples, dropout and augmentation follow from it"),
      key<Config>(
          "run.epochs", [](Config & c) -> auto& { return c.run.epochs; }, at_least_if_stated(1, 1e6),
          "length of training; either epochs or steps")
          .unit("epochs")
          .example("10"),
      key<Config>(
          "run.steps", [](Config & c) -> auto& { return c.run.steps; }, at_least_if_stated(1),
          "length of training instead of epochs")
          .unit("steps"),
      key<Config>(
          "run.reproducible", [](Config & c) -> auto& { return c.run.reproducible; }, choice({"fast", "bitwise"}),
          "bitwise: the same bits on any number of ranks and after a resume"),
      key<Config>(
          "run.directory", [](Config & c) -> auto& { return c.run.directory; }, {},
          "where the run is written; runs/<name> when not given"),
      key<Config>(
          "run.accumulate", [](Config & c) -> auto& { return c.run.accumulate; }, between(1, 65536),
          "micro-batches per replica and step: less memory, same result (not with bitwise)"),
      key<Config>(
          "run.deadline_s", [](Config & c) -> auto& { return c.run.deadline_s; }, between(0.1, 1e6),
          "limit of every wait for other ranks")
          .unit("s"),
      wall_time_key(
          "run.wall_time", [](Config & c) -> auto& { return c.run.wall_time; },
          "saves and exits 75 before this time since the start is over; auto: before the Slurm job ends"),
      key<Config>(
          "run.max_loss", [](Config & c) -> auto& { return c.run.max_loss; }, at_least_or("off", 0),
          "loss guard: a mean training loss above this ends the run as diverged"),
  };
}

}  // namespace muster::config
