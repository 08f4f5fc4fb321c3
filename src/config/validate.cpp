#include "config/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace muster::config {
namespace {

/// Collects problems of one config with the places of the keys they name.
class Validator {
 public:
  Validator(const train::Config& config, const Place& root, Reading& reading)
      : c_(config), root_(root), reading_(reading) {}

  void run() {
    check_length();
    check_unavailable();
    check_name();
    check_schedule();
    check_servers();
    check_shard();
    check_pipeline();
    check_device();
    check_bitwise();
    check_accumulate();
    check_sources();
    check_transforms();
    check_batch_norm();
    check_loss();
  }

 private:
  bool is_bitwise() const { return c_.run.reproducible == "bitwise"; }

  /// Problem of a key; the place is the first given one of `paths`, else that of the file.
  void add(std::initializer_list<std::string> paths, const std::string& message) {
    Place place = reading_.place_of(paths);
    if (place.origin.empty()) place = root_;
    reading_.problems.add(place, *paths.begin(), message);
  }

  void check_length() {
    const bool has_epochs = reading_.has("run.epochs"), has_steps = reading_.has("run.steps");
    if (has_epochs && has_steps) add({"run.steps"}, "excludes 'run.epochs': give one of the two");
    if (!has_epochs && !has_steps)
      add({"run.epochs"}, "missing the length of training; expected run.epochs or run.steps");
  }

  void check_unavailable() {
    if (c_.parallel.tensor > 1) add({"parallel.grid.tensor"}, "more than 1 is not available in this version");
  }

  /// The name becomes a folder below runs/.
  void check_name() {
    const std::string& name = c_.run.name;
    const auto is_fine = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    };
    if (name.empty() || name.front() == '.' || !std::ranges::all_of(name, is_fine))
      add({"run.name"},
          fmt::format("expected letters, digits, '-', '_' and '.' (not first), found '{}'", printable(name)));
  }
  static std::string printable(const std::string& text) {
    std::string out;
    for (char c : text) out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
    return out;
  }

  void check_schedule() {
    const auto& s = c_.schedule;
    if (s.warmup_start > 0 && s.warmup_epochs == 0 && s.warmup_steps == 0)
      add({"schedule." + s.kind + ".warmup_start"}, "means nothing without warmup_epochs or warmup_steps; remove it");
    if (s.kind == "step" && s.at_epochs.empty())
      add({"schedule.step.at_epochs"}, "expected at least one boundary, found none; use constant");
  }

  void check_servers() {
    const auto& p = c_.parallel;
    if (p.strategy != "parameter_server") return check_no_servers();
    if (p.servers == 0)
      add({"parallel.servers"}, "missing with parallel.strategy: parameter_server; set it to 1 or more");
    if (is_bitwise() && p.staleness != 0)
      add({"run.reproducible"},
          "bitwise needs workers that wait for each other: with parallel.strategy: parameter_server set "
          "parallel.staleness to 0, or use fast");
    if (is_bitwise() && p.servers > 1 && c_.optimizer.clip_norm > 0 &&
        (c_.optimizer.kind == "lars" || c_.optimizer.kind == "lamb"))
      add({"parallel.servers"},
          fmt::format("bitwise mode with optimizer.clip_norm and {} needs one server, found {}: the norm of the whole "
                      "gradient would be summed differently",
                      c_.optimizer.kind, p.servers));
    if (p.staleness == 0) check_lock_step();
    else if (p.has_local_steps()) check_local_steps();
    if (p.record && c_.device.tune)
      add({"device.tune"}, "cannot go with parallel.record: a replay could choose other kernels");
    if (p.wire == "bf16" && (p.staleness == 0 || p.lock_step_until > 0))
      add({"parallel.wire"},
          fmt::format("bf16 cannot go with parallel.{}: shares of a batch are pushed as fp32; use fp32",
                      p.staleness == 0 ? "staleness: 0" : fmt::format("lock_step_until: {}", p.lock_step_until)));
    if (p.data > 0) add({"parallel.grid.data"}, "means nothing with parallel.strategy: parameter_server; remove it");
    if (p.lr_scaling == "linear" || p.lr_scaling == "sqrt")
      add({"parallel.lr_scaling"},
          "means nothing with parallel.strategy: parameter_server, where every update is made of one batch; use none");
  }

  /// The keys of workers that go their own ways.
  void check_lock_step() {
    const auto& p = c_.parallel;
    const parallel::ParallelOptions defaults;
    const std::string rest =
        "means nothing with parallel.staleness: 0, where every update is made in lock-step; remove it";
    if (p.lock_step_until != defaults.lock_step_until) add({"parallel.lock_step_until"}, rest);
    if (p.staleness_scaling != defaults.staleness_scaling) add({"parallel.staleness_scaling"}, rest);
    if (p.delay_compensation != defaults.delay_compensation) add({"parallel.delay_compensation"}, rest);
    if (p.push_every != defaults.push_every) add({"parallel.push_every"}, rest);
    if (p.elastic != defaults.elastic) add({"parallel.elastic"}, rest);
    if (p.longest_lease != defaults.longest_lease) add({"parallel.longest_lease"}, rest);
  }

  /// The keys of servers that are sent gradients.
  void check_local_steps() {
    const auto& p = c_.parallel;
    const std::string which = p.elastic > 0 ? fmt::format("parallel.elastic: {:g}", p.elastic)
                                            : fmt::format("parallel.push_every: {}", p.push_every);
    const auto excludes = [&](const std::string& path, const std::string& why) {
      add({path}, fmt::format("cannot go with {}: {}; remove one of the two", which, why));
    };
    if (p.lock_step_until > 0) excludes("parallel.lock_step_until", "in lock-step every update is made of one batch");
    if (p.delay_compensation > 0)
      excludes("parallel.delay_compensation", "it corrects gradients, and what is pushed are changes of the weights");
    if (p.elastic > 0 && p.staleness_scaling != "none")
      excludes("parallel.staleness_scaling", "the servers' weights must go as far as the worker's");
  }

  /// The keys of the parameter servers, stated with another value than the default, under another strategy.
  void check_no_servers() {
    const auto& p = c_.parallel;
    const parallel::ParallelOptions defaults;
    const std::string rest =
        fmt::format("means nothing with parallel.strategy: {}; remove it, or use parameter_server", p.strategy);
    if (p.servers != defaults.servers) add({"parallel.servers"}, rest);
    if (p.spares != defaults.spares) add({"parallel.spares"}, rest);
    if (p.staleness != defaults.staleness) add({"parallel.staleness"}, rest);
    if (p.lock_step_until != defaults.lock_step_until) add({"parallel.lock_step_until"}, rest);
    if (p.staleness_scaling != defaults.staleness_scaling) add({"parallel.staleness_scaling"}, rest);
    if (p.delay_compensation != defaults.delay_compensation) add({"parallel.delay_compensation"}, rest);
    if (p.push_every != defaults.push_every) add({"parallel.push_every"}, rest);
    if (p.elastic != defaults.elastic) add({"parallel.elastic"}, rest);
    if (p.longest_lease != defaults.longest_lease) add({"parallel.longest_lease"}, rest);
    if (p.heartbeat_deadline_s != defaults.heartbeat_deadline_s) add({"parallel.heartbeat_deadline_s"}, rest);
    if (p.transport != defaults.transport) add({"parallel.transport"}, rest);
    if (p.record) add({"parallel.record"}, rest);
  }

  /// A level that cannot be honoured is an error, not a lower level.
  void check_shard() {
    const auto& p = c_.parallel;
    if (p.shard == "none") return;
    if (p.strategy == "parameter_server")
      add({"parallel.shard"},
          "means nothing with parallel.strategy: parameter_server, where parallel.servers share the state; remove it");
    else if (p.shard != "optimizer")
      add({"parallel.shard"}, fmt::format("{} is not available in this version; use optimizer or none", p.shard));
    else if (c_.optimizer.kind == "sgd")
      add({"parallel.shard"}, "sgd keeps no state, so there is nothing to shard; use none");
  }

  /// What the network allows is found out when it is cut (model/stages.hpp).
  void check_pipeline() {
    const auto& p = c_.parallel;
    const parallel::ParallelOptions defaults;
    if (p.pipeline == 1) {
      if (p.pipeline_schedule != defaults.pipeline_schedule)
        add({"parallel.pipeline_schedule"}, "means nothing with parallel.grid.pipeline: 1; remove it");
      return;
    }
    if (p.strategy == "parameter_server")
      add({"parallel.grid.pipeline"}, "means nothing with parallel.strategy: parameter_server; remove it");
    if (p.wire == "bf16" && p.strategy != "parameter_server")
      add({"parallel.wire"},
          "bf16 cannot go with parallel.grid.pipeline > 1, whose messages between stages are fp32; use fp32");
    if (is_bitwise())
      add({"parallel.grid.pipeline"},
          "more than 1 cannot go with run.reproducible: bitwise: kernels may be chosen differently where the network "
          "is "
          "cut; use fast");
    else if (c_.run.accumulate < p.pipeline)
      add({"run.accumulate", "parallel.grid.pipeline"},
          fmt::format("a pipeline of {} stages needs at least {} micro-batches, found {}", p.pipeline, p.pipeline,
                      c_.run.accumulate));
  }

  /// What a stated GPU cannot do; device.kind: auto is found out at the start of a run.
  void check_device() {
    const auto& p = c_.parallel;
    if (c_.device.kind != "cuda") return;
    if (p.strategy == "parameter_server")
      add({"device.kind"},
          "with parallel.strategy: parameter_server workers and servers compute on the CPU, found cuda; use cpu, or "
          "mirrored or multi_worker_mirrored");
    if (p.pipeline > 1)
      add({"parallel.grid.pipeline"}, fmt::format("{} stages need device.kind: cpu, found cuda; use 1", p.pipeline));
    if (p.shard == "optimizer") add({"parallel.shard"}, "optimizer needs device.kind: cpu, found cuda; use none");
  }

  void check_bitwise() {
    if (!is_bitwise()) {
      if (c_.parallel.grains > 0)
        add({"parallel.grains"}, "means nothing without run.reproducible: bitwise; remove it");
      return;
    }
    if (c_.parallel.wire == "bf16")
      add({"parallel.wire"}, "bf16 cannot go with run.reproducible: bitwise; use fp32 or fast");
    if (c_.device.tune)
      add({"device.tune"}, "cannot go with run.reproducible: bitwise: the kernels chosen could differ between runs");
    if (c_.run.accumulate > 1)
      add({"run.accumulate"}, "cannot go with run.reproducible: bitwise; raise parallel.grains instead");
    if (c_.data.batch > 0 && c_.parallel.grains > c_.data.batch)
      add({"parallel.grains"},
          fmt::format("expected at most data.batch = {}, found {}", c_.data.batch, c_.parallel.grains));
  }

  void check_accumulate() {
    if (c_.run.accumulate <= 1) return;
    if (has_global_batch_norm(c_.model.layers) && c_.parallel.pipeline > 1)
      add({"parallel.grid.pipeline"},
          "stages work on one micro-batch at a time, but batch_norm of global scope needs the whole batch at once; use "
          "scope: {group: k}");
    else if (has_global_batch_norm(c_.model.layers))
      add({"run.accumulate"},
          "saves no memory with batch_norm of global scope, which needs the whole batch at once; use scope: {group: "
          "k}");
    if (c_.data.batch > 0 && c_.run.accumulate > c_.data.batch)
      add({"run.accumulate"},
          fmt::format("expected at most data.batch = {}, found {}", c_.data.batch, c_.run.accumulate));
  }

  void check_sources() {
    const bool is_synthetic = reading_.has("data.synthetic.samples") || reading_.has("data.synthetic.test_samples") ||
                              reading_.has("data.synthetic.classes") || reading_.has("data.synthetic.shape");
    if (!is_synthetic) {
      if (!reading_.has("data.train")) add({"data.train"}, "missing; expected data.train or data.synthetic");
      return;
    }
    if (!reading_.has("data.synthetic.samples"))
      add({"data.synthetic.samples", "data.synthetic.classes", "data.synthetic.shape", "data.synthetic.test_samples"},
          "missing; expected integer >= 1");
    for (const char* path : {"data.train", "data.test"})
      if (reading_.has(path)) add({path}, "excludes data.synthetic: give one of the two");
    const Shape& shape = c_.data.synthetic.shape;
    if (shape.rank() > 0 && c_.model.input.rank() > 0 && shape != c_.model.input)
      add({"data.synthetic.shape"},
          fmt::format("expected model.input = {}, found {}", c_.model.input.text(), shape.text()));
    if (c_.model.loss.kind != device::LossSpec::Kind::softmax_cross_entropy)
      add({"model.loss"}, "expected softmax_cross_entropy, as data.synthetic has class labels");
  }

  void check_transforms() {
    const auto& t = c_.data.transforms;
    const Shape& input = c_.model.input;
    if (input.rank() == 0) return;
    if (t.normalise && !c_.data.train.tokens.empty())
      add({"data.transforms"}, "normalise: token ids stay as they are; remove it");
    if ((t.random_crop || t.horizontal_flip || t.cutout) && input.rank() != 3)
      add({"data.transforms"},
          fmt::format("augmentation expects images [channels, height, width], found model.input {}", input.text()));
    else if (t.cutout && t.cutout->size > std::min(input[1], input[2]))
      add({"data.transforms"},
          fmt::format("cutout: a square of {} does not fit into the image {}", t.cutout->size, input.text()));
    const std::int64_t channels = input.rank() == 3 ? input[0] : 0;
    if (t.normalise && t.normalise->mean.size() > 1 && channels > 0 &&
        t.normalise->mean.size() != static_cast<std::size_t>(channels))
      add({"data.transforms"}, fmt::format("normalise: expected one value or {} (channels of model.input), found {}",
                                           channels, t.normalise->mean.size()));
  }

  void check_batch_norm() {
    const std::int64_t unit = batch_norm_unit(c_.model.layers);
    if (unit == 1 || c_.data.batch <= 0) return;
    if (c_.data.batch % unit != 0)
      add({"data.batch"},
          fmt::format("expected a multiple of {}, the group of batch_norm (least common multiple of all), found {}",
                      unit, c_.data.batch));
    else if (is_bitwise() && c_.parallel.grains > c_.data.batch / unit)
      add({"parallel.grains"},
          fmt::format("expected at most {}, the number of batch_norm groups of {} in the batch, found {}",
                      c_.data.batch / unit, unit, c_.parallel.grains));
  }

  void check_loss() {
    if (c_.model.top_k > 0 && c_.model.loss.kind != device::LossSpec::Kind::softmax_cross_entropy)
      add({"model.metrics.top_k"}, "needs class labels: model.loss must be softmax_cross_entropy");
  }

  const train::Config& c_;
  Place root_;
  Reading& reading_;
};

/// Calls visit with every batch norm, in branches too.
template <class Visit>
void for_each_batch_norm(const model::LayerList& layers, const Visit& visit) {
  for (const model::LayerSpec& layer : layers) {
    if (const auto* norm = std::get_if<model::BatchNormLayer>(&layer.options)) visit(norm->op);
    for (const model::LayerList& branch : layer.branches) for_each_batch_norm(branch, visit);
  }
}

}  // namespace

std::int64_t batch_norm_unit(const model::LayerList& layers) {
  std::int64_t unit = 1;
  for_each_batch_norm(layers, [&](const device::BatchNormSpec& norm) {
    if (norm.group > 0) unit = std::lcm(unit, norm.group);
  });
  return unit;
}

bool has_global_batch_norm(const model::LayerList& layers) {
  bool is_found = false;
  for_each_batch_norm(layers, [&](const device::BatchNormSpec& norm) { is_found |= norm.group == 0; });
  return is_found;
}

void validate(const train::Config& config, const Place& root, Reading& reading) {
  Validator(config, root, reading).run();
}

void derive(train::Config& config) {
  if (config.run.directory.empty()) config.run.directory = "runs/" + config.run.name;
  if (config.data.synthetic.samples > 0 && config.data.synthetic.shape.rank() == 0)
    config.data.synthetic.shape = config.model.input;
  if (config.run.reproducible == "bitwise" && config.device.threads == 0) config.device.threads = 1;
}

}  // namespace muster::config
