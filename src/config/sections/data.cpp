// data: sources, batches, order, augmentation. Each structured value (source, shuffle, transforms) is a small table of
// its own.
#include "config/table.hpp"

namespace muster::config {
namespace {

using dataset::ShuffleOptions;
using dataset::SourceOptions;
using dataset::TransformOptions;

const std::vector<Key<SourceOptions>>& source_keys() {
  static const std::vector<Key<SourceOptions>> keys = [] {
    Key<SourceOptions> file;
    file.facts.path = "file";
    file.facts.type = "text";
    file.facts.meaning = "one HDF5 file; the same as the file name alone";
    file.set = [](const Node& node, SourceOptions& source, const std::string& path, Reading& reading) {
      if (std::string name; read_value(node, name, {}, path, reading)) source.files = {name};
    };
    file.get = [](const SourceOptions&) { return std::nullopt; };
    return std::vector<Key<SourceOptions>>{
        file,
        key<SourceOptions>(
            "files", [](SourceOptions & s) -> auto& { return s.files; }, {}, "several files, joined in this order"),
        key<SourceOptions>(
            "inputs", [](SourceOptions & s) -> auto& { return s.inputs; }, {},
            "dataset of the inputs inside each file"),
        key<SourceOptions>(
            "targets", [](SourceOptions & s) -> auto& { return s.targets; }, {},
            "dataset of the targets inside each file"),
        key<SourceOptions>(
            "tokens", [](SourceOptions & s) -> auto& { return s.tokens; }, {},
            "dataset of token ids inside each file, one long row (muster convert text); excludes inputs and targets"),
        key<SourceOptions>(
            "window", [](SourceOptions & s) -> auto& { return s.window; }, at_least_if_stated(1),
            "tokens: ids per sample, as model.input; the targets are the same ids one further on"),
        key<SourceOptions>(
            "stride", [](SourceOptions & s) -> auto& { return s.stride; }, at_least_or("window", 1),
            "tokens: ids from the start of one sample to the next"),
        key<SourceOptions>(
            "range", [](SourceOptions & s) -> auto& { return s.range; }, {}, "only the samples [first, end)"),
    };
  }();
  return keys;
}

ConfigKey source_key(const std::string& path, SourceOptions& (*field)(Config&), const std::string& meaning) {
  ConfigKey made;
  made.facts.path = path;
  made.facts.type = "file name or map";
  made.facts.meaning = meaning;
  made.facts.groups = {{"", "the map form", facts_of(source_keys()), write_keys(source_keys(), SourceOptions{})}};
  made.set = [field](const Node& node, Config& config, const std::string& full, Reading& reading) {
    SourceOptions& source = field(config);
    source = {};
    if (node.is_scalar()) {
      if (std::string name; read_value(node, name, {}, full, reading)) source.files = {name};
      return;
    }
    const std::size_t before = reading.problems.size();
    read_map(node, source_keys(), source, full, reading);
    if (node.find("file") && node.find("files"))
      reading.problems.add(node.find("files")->place, full + ".files", "excludes 'file': give one of the two");
    else if (node.is_map() && source.files.empty() && reading.problems.size() == before)
      reading.problems.add(node.place, full, "expected a file, found none; add file: or files:");
    else if (!source.tokens.empty() && source.window == 0 && reading.problems.size() == before)
      reading.problems.add(node.place, full + ".window", "missing; tokens needs the ids per sample, as model.input");
    else if (source.tokens.empty() && (source.window > 0 || source.stride > 0))
      reading.problems.add(node.place, full, "window and stride are for tokens: add tokens: <dataset>");
  };
  made.get = [field](const Config& config) -> std::optional<Node> {
    const SourceOptions& source = field(const_cast<Config&>(config));
    if (!source.is_set()) return std::nullopt;
    return write_keys(source_keys(), source);
  };
  made.get_default = [](const Config&) { return write_keys(source_keys(), SourceOptions{}); };
  return made;
}

const std::vector<Kind<ShuffleOptions>>& shuffle_kinds() {
  using Order = ShuffleOptions::Kind;
  static const std::vector<Kind<ShuffleOptions>> kinds{
      {"none", "index order", {}, [](ShuffleOptions& s) { s = {}, s.kind = Order::none; }},
      {"full",
       "another order of all samples in every epoch",
       {},
       [](ShuffleOptions& s) { s = {}, s.kind = Order::full; }},
      {"block",
       "whole blocks change places, then samples inside a window of blocks: few seeks on slow disks",
       {key<ShuffleOptions>(
            "size", [](ShuffleOptions & s) -> auto& { return s.block; }, at_least_if_stated(1), "samples per block")
            .unit("samples")
            .required(),
        key<ShuffleOptions>(
            "window", [](ShuffleOptions & s) -> auto& { return s.window; }, at_least(1), "blocks mixed with each other")
            .unit("blocks")},
       [](ShuffleOptions& s) { s = {}, s.kind = Order::block; }},
  };
  return kinds;
}

const Kind<ShuffleOptions>& shuffle_kind(const ShuffleOptions& shuffle) {
  return shuffle_kinds()[static_cast<std::size_t>(shuffle.kind)];
}

ConfigKey shuffle_key() {
  ConfigKey made;
  made.facts.path = "data.shuffle";
  made.facts.type = "none | full | {block: ...}";
  made.facts.meaning = "order of the training samples";
  made.facts.groups = groups_of(shuffle_kinds());
  made.set = [](const Node& node, Config& config, const std::string& full, Reading& reading) {
    read_kind(node, shuffle_kinds(), config.data.shuffle, full, reading);
  };
  made.get = [](const Config& config) { return write_kind(shuffle_kind(config.data.shuffle), config.data.shuffle); };
  return made;
}

template <class Options, std::optional<Options> TransformOptions::*member>
Options& part(TransformOptions& transforms) {
  if (!(transforms.*member)) transforms.*member = Options{};
  return *(transforms.*member);
}
constexpr auto normalise = part<dataset::NormaliseOptions, &TransformOptions::normalise>;
constexpr auto crop = part<dataset::CropOptions, &TransformOptions::random_crop>;
constexpr auto flip = part<dataset::FlipOptions, &TransformOptions::horizontal_flip>;
constexpr auto cutout = part<dataset::CutoutOptions, &TransformOptions::cutout>;

/// mean and std are written only where they were given.
Key<TransformOptions> statistic_key(const std::string& name, std::vector<double>& (*field)(TransformOptions&),
                                    Limits limits, const std::string& meaning) {
  auto made = key<TransformOptions>(name, field, limits, meaning);
  made.get = [field](const TransformOptions& transforms) -> std::optional<Node> {
    if (!transforms.normalise || transforms.normalise->is_auto) return std::nullopt;
    return write_value(field(const_cast<TransformOptions&>(transforms)), {});
  };
  return made;
}

/// In the order in which they are applied.
const std::vector<Kind<TransformOptions>>& transform_kinds() {
  using T = TransformOptions;
  static const std::vector<Kind<T>> kinds{
      {"normalise",
       "(x - mean) / std per channel, bytes scaled to 0..1 first; without keys: as stored in the data file",
       {statistic_key(
            "mean", [](T& t) -> std::vector<double>& { return normalise(t).mean; }, {},
            "one number, or one per channel"),
        statistic_key(
            "std", [](T& t) -> std::vector<double>& { return normalise(t).std; }, above(0),
            "one number, or one per channel")},
       [](T& t) { t.normalise = dataset::NormaliseOptions{}; }},
      {"random_crop",
       "zero-padded, then cut to the old size at a random place (training only)",
       {key<T>(
            "padding", [](T & t) -> auto& { return crop(t).padding; }, at_least_if_stated(1, 65535),
            "padding on each side")
            .unit("pixels")
            .required()},
       [](T& t) { t.random_crop = dataset::CropOptions{}; }},
      {"horizontal_flip",
       "left and right exchanged (training only)",
       {key<T>(
           "probability", [](T & t) -> auto& { return flip(t).probability; }, between(0, 1), "how often")},
       [](T& t) { t.horizontal_flip = dataset::FlipOptions{}; }},
      {"cutout",
       "a square set to zero (training only; DeVries and Taylor 2017)",
       {key<T>(
            "size", [](T & t) -> auto& { return cutout(t).size; }, at_least(1), "side of the square")
            .unit("pixels"),
        key<T>(
            "probability", [](T & t) -> auto& { return cutout(t).probability; }, between(0, 1), "how often")},
       [](T& t) { t.cutout = dataset::CutoutOptions{}; }},
  };
  return kinds;
}

void check_normalise(const Node& node, TransformOptions& transforms, const std::string& path, Reading& reading) {
  auto& options = *transforms.normalise;
  options.is_auto = options.mean.empty() && options.std.empty();
  if (options.is_auto) return;
  if (options.mean.empty() || options.std.empty())
    reading.problems.add(node.place, path, "expected both mean and std, or none of them, found one");
  else if (options.mean.size() != options.std.size())
    reading.problems.add(node.place, path,
                         fmt::format("expected as many values of mean as of std, found {} and {}", options.mean.size(),
                                     options.std.size()));
}

void read_transforms(const Node& node, Config& config, const std::string& full, Reading& reading) {
  const auto& kinds = transform_kinds();
  const std::vector<std::string> order = names_of(kinds);
  if (!node.is_sequence()) return add_mismatch(node, "a list of " + join(order, ", "), full, reading);
  config.data.transforms = {};
  const Kind<TransformOptions>* before = nullptr;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", full, i);
    const auto* kind = read_kind(node.items[i], kinds, config.data.transforms, path, reading);
    if (!kind) continue;
    if (before && kind <= before)
      reading.problems.add(
          node.items[i].place, path,
          fmt::format("'{}' {}; transforms are applied in the order {}", kind->name,
                      kind == before ? "is given twice" : "comes after '" + before->name + "'", join(order, ", ")));
    if (kind->name == "normalise") check_normalise(node.items[i], config.data.transforms, path, reading);
    before = std::max(before, kind);
  }
}

std::optional<Node> write_transforms(const Config& config) {
  const TransformOptions& t = config.data.transforms;
  const bool is_present[] = {t.normalise.has_value(), t.random_crop.has_value(), t.horizontal_flip.has_value(),
                             t.cutout.has_value()};
  std::vector<Node> items;
  for (std::size_t i = 0; i < transform_kinds().size(); ++i)
    if (is_present[i]) items.push_back(write_kind(transform_kinds()[i], t));
  return sequence(std::move(items));
}

ConfigKey transforms_key() {
  ConfigKey made;
  made.facts.path = "data.transforms";
  made.facts.type = "list";
  made.facts.meaning = "what happens to a sample after reading, in the order below";
  made.facts.groups = groups_of(transform_kinds());
  made.set = read_transforms;
  made.get = write_transforms;
  return made;
}

/// The keys of data.synthetic are stated only where the data are synthetic.
template <class Field>
ConfigKey synthetic_key(const std::string& name, Field field, Limits limits, const std::string& meaning) {
  auto made = key<Config>("data.synthetic." + name, field, limits, meaning);
  made.get = [get = made.get](const Config& config) {
    return config.data.synthetic.samples > 0 ? get(config) : std::nullopt;
  };
  return made;
}

}  // namespace

std::vector<ConfigKey> data_keys() {
  return {
      source_key(
          "data.train", [](Config& c) -> SourceOptions& { return c.data.train; },
          "training samples; excludes synthetic")
          .example("data/fashion_mnist.h5"),
      source_key(
          "data.test", [](Config& c) -> SourceOptions& { return c.data.test; }, "samples of the evaluation"),
      synthetic_key(
          "samples", [](Config & c) -> auto& { return c.data.synthetic.samples; }, at_least(1),
          "made-up training samples")
          .unit("samples"),
      synthetic_key(
          "test_samples", [](Config & c) -> auto& { return c.data.synthetic.test_samples; }, at_least(0),
          "made-up test samples")
          .unit("samples"),
      synthetic_key(
          "classes", [](Config & c) -> auto& { return c.data.synthetic.classes; }, at_least(2),
          "number of class labels"),
      synthetic_key(
          "shape", [](Config & c) -> auto& { return c.data.synthetic.shape; }, {},
          "of one sample; model.input when not given"),
      key<Config>(
          "data.batch", [](Config & c) -> auto& { return c.data.batch; }, at_least_if_stated(1),
          "global batch: over all replicas")
          .unit("samples")
          .required()
          .example("128"),
      key<Config>(
          "data.test_batch", [](Config & c) -> auto& { return c.data.test_batch; }, at_least_or("auto", 1),
          "samples per evaluation batch; auto: batch / run.accumulate")
          .unit("samples"),
      shuffle_key(),
      transforms_key(),
      key<Config>(
          "data.prefetch", [](Config & c) -> auto& { return c.data.prefetch; }, between(1, 64),
          "batches held ready by the reading thread")
          .unit("batches"),
      key<Config>(
          "data.check_finite", [](Config & c) -> auto& { return c.data.check_finite; }, {},
          "NaN or Inf in the inputs is an error"),
  };
}

}  // namespace muster::config
