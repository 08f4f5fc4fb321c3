// checkpoint, log, eval: what happens every so often.
#include "config/table.hpp"

namespace muster::config {

std::vector<ConfigKey> checkpoint_keys() {
  return {
      every_key(
          "checkpoint.every", [](Config & c) -> auto& { return c.checkpoint.every; }, "interval of checkpoints"),
      key<Config>(
          "checkpoint.keep", [](Config & c) -> auto& { return c.checkpoint.keep; }, at_least(1),
          "newest checkpoints kept; older ones are removed"),
  };
}

std::vector<ConfigKey> log_keys() {
  return {
      every_key(
          "log.every", [](Config & c) -> auto& { return c.log.every; }, "interval of log lines and of metrics.jsonl"),
      key<Config>(
          "log.tensorboard", [](Config & c) -> auto& { return c.log.tensorboard; }, {},
          "the numbers of metrics.jsonl also as an event file in the run's directory, for TensorBoard")};
}

std::vector<ConfigKey> eval_keys() {
  return {every_key(
      "eval.every", [](Config & c) -> auto& { return c.eval.every; },
      "interval of evaluations on data.test, where there is one")};
}

}  // namespace muster::config
