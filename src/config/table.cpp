#include "config/table.hpp"

#include "config/number.hpp"

#include <cmath>
#include <map>

namespace muster::config {
namespace {

constexpr const char* every_type = "'N steps', 'N epochs' or never";

/// "1 epoch", "2.5 epochs", "500 steps", "never".
std::optional<train::Every> parse_every(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (node.text == "never") return train::Every{0, 0};
  const auto words = split(node.text, ' ');
  if (words.size() != 2) return std::nullopt;
  if (words[1] == "step" || words[1] == "steps") {
    const auto steps = parse_integer(words[0]);
    if (steps && *steps > 0 && *steps <= std::numeric_limits<std::int32_t>::max()) return train::Every{0, *steps};
  } else if (words[1] == "epoch" || words[1] == "epochs") {
    const auto epochs = parse_double(words[0]);
    if (epochs && *epochs > 0 && *epochs <= 1e6) return train::Every{*epochs, 0};
  }
  return std::nullopt;
}

Node write_every(const train::Every& every) {
  if (every.steps > 0) return scalar(fmt::format("{} step{}", every.steps, every.steps == 1 ? "" : "s"));
  if (every.epochs > 0)
    return scalar(fmt::format("{} epoch{}", number_text(every.epochs), every.epochs == 1 ? "" : "s"));
  return scalar("never");
}

}  // namespace

ConfigKey every_key(const std::string& path, train::Every& (*field)(Config&), const std::string& meaning) {
  return key_of(path, field, every_type, parse_every, write_every, meaning);
}

const std::vector<ConfigKey>& table() {
  static const std::vector<ConfigKey> all = [] {
    std::vector<ConfigKey> keys;
    for (const auto section : {run_keys, parallel_keys, device_keys, data_keys, model_keys, optimizer_keys,
                               schedule_keys, checkpoint_keys, log_keys, eval_keys})
      for (ConfigKey& key : section()) keys.push_back(std::move(key));
    for (ConfigKey& key : keys)
      if (!key.get_default) key.get_default = [get = key.get](const Config&) { return get(Config{}); };
    return keys;
  }();
  return all;
}

std::string section_meaning(const std::string& section) {
  static const std::map<std::string, std::string> meanings{
      {"run", "the run as a whole"},
      {"parallel", "how the ranks of the job share the work"},
      {"device", "what computes"},
      {"data", "samples, batches and augmentation"},
      {"model", "the network: a list of layers, or a file with this section's keys"},
      {"optimizer", "one of the kinds below, by name or with its keys"},
      {"schedule", "learning rate over time: one of the kinds below; a factor of optimizer.lr"},
      {"checkpoint", "saving; a run always ends with a checkpoint"},
      {"log", "log lines and metrics.jsonl"},
      {"eval", "evaluation on data.test"},
  };
  const auto found = meanings.find(section);
  return found == meanings.end() ? "" : found->second;
}

std::string hint_for(const std::string& path) {
  if (path == "sweep") return "describes many runs: start them with muster sweep";
  if (path == "<<" || path.ends_with(".<<"))
    return "merge keys are not read: write the keys out, or use an alias for the whole value";
  const std::string leaf = path.substr(path.rfind('.') + 1);
  for (const ConfigKey& key : table())
    if (key.facts.path != path && key.facts.path.ends_with("." + leaf))
      return fmt::format("unknown key; did you mean '{}'?", key.facts.path);
  return "";
}

}  // namespace muster::config
