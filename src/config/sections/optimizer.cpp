// optimizer: one entry per kind; the keys they share are functions. Defaults are PyTorch's where PyTorch has the kind.
#include "config/table.hpp"

#include <functional>

namespace muster::config {
namespace {

using optim::OptimizerOptions;
using OptimizerKey = Key<OptimizerOptions>;

OptimizerKey lr() {
  return key<OptimizerOptions>(
      "lr", [](OptimizerOptions & o) -> auto& { return o.lr; }, above(0),
      "learning rate, before schedule and lr_scaling");
}
OptimizerKey momentum() {
  return key<OptimizerOptions>(
      "momentum", [](OptimizerOptions & o) -> auto& { return o.momentum; }, below_from(0, 1),
      "part of the last update that is kept");
}
OptimizerKey beta1() {
  return key<OptimizerOptions>(
      "beta1", [](OptimizerOptions & o) -> auto& { return o.beta1; }, below_from(0, 1), "smoothing of the gradient");
}
OptimizerKey beta2() {
  return key<OptimizerOptions>(
      "beta2", [](OptimizerOptions & o) -> auto& { return o.beta2; }, below_from(0, 1),
      "smoothing of the squared gradient");
}
OptimizerKey epsilon() {
  return key<OptimizerOptions>(
      "epsilon", [](OptimizerOptions & o) -> auto& { return o.epsilon; }, at_least(1e-30), "added to the denominator");
}
OptimizerKey decay_rate() {
  return key<OptimizerOptions>(
      "decay_rate", [](OptimizerOptions & o) -> auto& { return o.decay_rate; }, below_from(0, 1),
      "smoothing of the squared gradient");
}
OptimizerKey trust_coefficient() {
  return key<OptimizerOptions>(
      "trust_coefficient", [](OptimizerOptions & o) -> auto& { return o.trust_coefficient; }, above(0),
      "factor of |weights| / |gradient| per layer");
}
OptimizerKey weight_decay(const std::string& meaning) {
  return key<OptimizerOptions>(
      "weight_decay", [](OptimizerOptions & o) -> auto& { return o.weight_decay; }, at_least(0), meaning);
}

/// A kind: its own keys between lr and those every kind has.
Kind<OptimizerOptions> kind(const std::string& name, const std::string& meaning, std::vector<OptimizerKey> own,
                            const std::function<void(OptimizerOptions&)>& defaults = {}, bool is_decoupled = false) {
  Kind<OptimizerOptions> made{name, meaning, {lr()}, [name, defaults](OptimizerOptions& o) {
                                o = {};
                                o.kind = name;
                                if (defaults) defaults(o);
                              }};
  for (OptimizerKey& one : own) made.keys.push_back(std::move(one));
  made.keys.push_back(
      weight_decay(is_decoupled ? "pull towards zero, apart from the gradient" : "L2 penalty, added to the gradient"));
  made.keys.push_back(key<OptimizerOptions>(
      "no_decay", [](OptimizerOptions & o) -> auto& { return o.no_decay; }, {},
      "parameters whose name ends so get no weight decay and no layer-wise scaling"));
  made.keys.push_back(key<OptimizerOptions>(
      "clip_norm", [](OptimizerOptions & o) -> auto& { return o.clip_norm; }, at_least_or("off", 0),
      "limit of the norm of the whole gradient"));
  return made;
}

const std::vector<Kind<OptimizerOptions>>& kinds() {
  using O = OptimizerOptions;
  static const std::vector<Kind<O>> all{
      kind("sgd", "stochastic gradient descent", {}, [](O& o) { o.momentum = 0; }),
      kind("momentum", "with heavy-ball momentum (Polyak 1964)", {momentum()}),
      kind("nesterov", "with Nesterov's momentum (Sutskever et al. 2013)", {momentum()}),
      kind("rmsprop", "scaled by the root of the mean squared gradient (Tieleman and Hinton 2012)",
           {decay_rate(), epsilon()}, [](O& o) { o.momentum = 0; }),
      kind("adam", "Kingma and Ba 2015", {beta1(), beta2(), epsilon()}, [](O& o) { o.lr = 1e-3; }),
      kind(
          "adamw", "Adam with decoupled weight decay (Loshchilov and Hutter 2019)", {beta1(), beta2(), epsilon()},
          [](O& o) { o.lr = 1e-3, o.weight_decay = 1e-2; }, true),
      kind("lars", "layer-wise scaled momentum for large batches (You et al. 2017)", {momentum(), trust_coefficient()},
           [](O& o) { o.lr = 0.1; }),
      kind(
          "lamb", "layer-wise scaled Adam for large batches (You et al. 2020)", {beta1(), beta2(), epsilon()},
          [](O& o) { o.lr = 1e-3, o.epsilon = 1e-6; }, true),
  };
  return all;
}

/// A key that belongs to other kinds says to which.
std::string hint(const std::string& path) {
  const std::string name = path.substr(path.rfind('.') + 1);
  std::vector<std::string> owners;
  for (const auto& one : kinds())
    for (const auto& each : one.keys)
      if (each.facts.path == name) owners.push_back(one.name);
  return owners.empty() ? "" : "not a key of this optimizer; it belongs to " + join(owners, ", ");
}

const Kind<OptimizerOptions>& kind_of(const OptimizerOptions& options) {
  return *std::find_if(kinds().begin(), kinds().end(), [&](const auto& one) { return one.name == options.kind; });
}

}  // namespace

std::vector<ConfigKey> optimizer_keys() {
  ConfigKey made;
  made.facts.path = "optimizer";
  made.facts.type = join(names_of(kinds()), " | ");
  made.facts.meaning = "how a gradient becomes an update";
  made.facts.groups = groups_of(kinds());
  made.set = [](const Node& node, Config& config, const std::string& full, Reading& reading) {
    read_kind(node, kinds(), config.optimizer, full, reading, hint);
  };
  made.get = [](const Config& config) { return write_kind(kind_of(config.optimizer), config.optimizer); };
  made.get_default = [](const Config& config) { return write_default(kind_of(config.optimizer)); };
  return {made};
}

}  // namespace muster::config
