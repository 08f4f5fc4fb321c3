// The table of all keys: one function per section, each in its own file under sections/.
#pragma once

#include "config/key.hpp"

#include <muster/train/options.hpp>

#include <string>
#include <vector>

namespace muster::config {

using train::Config;
using ConfigKey = Key<Config>;

std::vector<ConfigKey> run_keys();
std::vector<ConfigKey> parallel_keys();
std::vector<ConfigKey> device_keys();
std::vector<ConfigKey> data_keys();
std::vector<ConfigKey> model_keys();
std::vector<ConfigKey> optimizer_keys();
std::vector<ConfigKey> schedule_keys();
std::vector<ConfigKey> checkpoint_keys();
std::vector<ConfigKey> log_keys();
std::vector<ConfigKey> eval_keys();

/// All of them, in the order of the reference.
const std::vector<ConfigKey>& table();
/// One line about a section, for the reference.
std::string section_meaning(const std::string& section);
/// Keys of the design that this version does not honour, and keys given in a wrong section; "" for others.
std::string hint_for(const std::string& path);

/// A key of a type that is written as one word or a few. `type`: what messages say is expected; parse: nothing for what
/// is none of it.
template <class Value>
ConfigKey key_of(const std::string& path, Value& (*field)(Config&), const char* type,
                 std::optional<Value> (*parse)(const Node&), Node (*write)(const Value&), const std::string& meaning) {
  ConfigKey key;
  key.facts.path = path;
  key.facts.type = type;
  key.facts.meaning = meaning;
  key.set = [=](const Node& node, Config& config, const std::string& full, Reading& reading) {
    if (const auto value = parse(node)) field(config) = *value;
    else add_mismatch(node, type, full, reading);
  };
  key.get = [=](const Config& config) { return write(field(const_cast<Config&>(config))); };
  return key;
}

/// A duration, or auto, or never, as a key.
ConfigKey wall_time_key(const std::string& path, train::WallTime& (*field)(Config&), const std::string& meaning);
/// A length in steps or epochs as a key.
ConfigKey every_key(const std::string& path, train::Every& (*field)(Config&), const std::string& meaning);

}  // namespace muster::config
