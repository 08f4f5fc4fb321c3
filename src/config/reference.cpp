// configs/reference.yaml: every key as a loadable config with its defaults; keys without one, and alternatives, are
// comments. Type, unit and meaning stand behind each.
#include "config/layers/layer_type.hpp"
#include "config/sweep_section.hpp"
#include "config/table.hpp"

#include <muster/config/config.hpp>

namespace muster::config {
namespace {

constexpr std::size_t comment_column = 44;

std::string facts_text(const KeyFacts& facts) {
  std::string text = facts.type;
  if (!facts.unit.empty()) text += ", in " + facts.unit;
  if (facts.is_required) text += ", required";
  return text + ": " + facts.meaning;
}

std::string line_of(const std::string& left, const KeyFacts& facts) {
  std::string line = left;
  if (line.size() + 1 < comment_column) line.resize(comment_column, ' ');
  else line += "  ";
  return line + "# " + facts_text(facts) + "\n";
}

/// Kinds or keys of a structured value, as comments.
std::string group_lines(const KeyFacts& key, const std::string& indent) {
  std::string out;
  for (const auto& group : key.groups) {
    if (!group.name.empty()) out += fmt::format("{}# {}: {}\n", indent, group.name, group.meaning);
    for (const KeyFacts& inner : group.keys) {
      const Node* value = group.defaults.find(inner.path);
      const std::string shown = value ? write_flow(*value) : inner.example;
      out += line_of(fmt::format("{}#   {}:{}{}", indent, inner.path, shown.empty() ? "" : " ", shown), inner);
    }
  }
  return out;
}

/// Keys of one section; nested maps (grid, synthetic, metrics) open where their first key stands.
class SectionWriter {
 public:
  std::string write(const ConfigKey& key) {
    const auto parts = split(key.facts.path, '.');
    std::string out;
    const auto value = key.get(Config{});
    const bool is_shown = value || !key.facts.example.empty();
    std::string indent = parts.size() > 1 ? "  " : "";
    if (parts.size() == 3) {
      if (parts[1] != open_) out += fmt::format("  {}{}:\n", is_shown ? "" : "# ", parts[1]);
      indent += "  ";
    }
    open_ = parts.size() == 3 ? parts[1] : "";
    const std::string text = value ? write_flow(*value) : key.facts.example;
    out +=
        line_of(fmt::format("{}{}{}:{}{}", is_shown ? "" : "# ", indent, parts.back(), text.empty() ? "" : " ", text),
                key.facts);
    return out + group_lines(key.facts, indent + "  ");
  }

 private:
  std::string open_;
};

std::string layer_lines() {
  std::string out =
      "\n# Layers: a list of one-key maps, or the bare name where every key has a default: [flatten, {dense: {units: "
      "10}}].\n"
      "# Each also takes name: (text). `repeat: {times: 3, layers: [...]}` stands for the layers three times over.\n";
  for (const LayerType& type : layer_types()) {
    LayerDraft draft;
    type.kind.begin(draft);
    out += fmt::format("# {}: {}\n", type.kind.name, type.kind.meaning);
    for (const LayerKey& key : type.kind.keys) {
      if (key.facts.path == "name") continue;
      const auto value = key.facts.is_required ? std::nullopt : key.get(draft);
      const std::string shown = value ? write_flow(*value) : key.facts.path == "activation" ? "none" : "";
      out += line_of(fmt::format("#   {}:{}{}", key.facts.path, shown.empty() ? "" : " ", shown), key.facts);
    }
  }
  return out;
}

/// As comments: a config with this section is for muster sweep.
std::string sweep_lines() {
  std::string out = "\n# sweep: many runs that differ in some keys; only for muster sweep\n# sweep:\n";
  for (const Key<SweepSection>& key : sweep_keys()) {
    const auto value = key.get(SweepSection{});
    const std::string text = value ? write_flow(*value) : key.facts.example;
    out += line_of(fmt::format("#   {}:{}{}", key.facts.path, text.empty() ? "" : " ", text), key.facts);
  }
  return out;
}

}  // namespace

std::string reference() {
  std::string out =
      "# Every key of a muster config: default, type, unit, meaning. Written by `muster check --print-reference`.\n"
      "# Precedence: --set section.key=value > environment MUSTER_SECTION_KEY > file > default; an empty value takes a "
      "key out.\n"
      "# Unknown keys are errors. Keys without a default are comments here, or show an example where they must be "
      "given.\n";
  std::string section;
  SectionWriter writer;
  for (const ConfigKey& key : table()) {
    const std::string name = split(key.facts.path, '.').front();
    if (name != section) {
      section = name;
      out += fmt::format("\n# {}\n", section_meaning(section));
      if (key.facts.path != section) out += section + ":\n";
    }
    out += writer.write(key);
  }
  return out + sweep_lines() + layer_lines();
}

}  // namespace muster::config
