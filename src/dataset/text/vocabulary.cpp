// Byte and character vocabularies, and the text form of all kinds: a line with the kind, then what the kind needs.
#include <muster/dataset/vocabulary.hpp>

#include "dataset/text/utf8.hpp"

#include <muster/base/error.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace muster::dataset {
namespace {

class Bytes : public Vocabulary {
 public:
  std::int64_t size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (std::int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::string serialise() const override { return "bytes\n"; }
};

class Characters : public Vocabulary {
 public:
  explicit Characters(std::string_view text) {
    const std::vector<char32_t> points = code_points(text);
    for (char32_t point : std::set<char32_t>(points.begin(), points.end())) {
      ids_[point] = static_cast<std::int32_t>(points_.size());
      points_.push_back(point);
    }
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(points_.size()); }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (char32_t point : code_points(text)) {
      const auto found = ids_.find(point);
      if (found == ids_.end())
        fail(ExitCode::data, "the text has '{}', which is not among the {} characters of the vocabulary",
             utf8_of(point), size());
      ids.push_back(found->second);
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (std::int32_t id : ids) text += utf8_of(points_[static_cast<std::size_t>(id)]);
    return text;
  }
  std::string serialise() const override {
    std::string text = "characters\n";
    for (char32_t point : points_) text += utf8_of(point);
    return text;
  }

 private:
  std::vector<char32_t> points_;
  std::map<char32_t, std::int32_t> ids_;
};

}  // namespace

std::unique_ptr<Vocabulary> byte_vocabulary() { return std::make_unique<Bytes>(); }
std::unique_ptr<Vocabulary> character_vocabulary(std::string_view text) { return std::make_unique<Characters>(text); }

std::unique_ptr<Vocabulary> parse_vocabulary(const std::string& serialised) {
  const std::size_t end = serialised.find('\n');
  const std::string kind = serialised.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : serialised.substr(end + 1);
  if (kind == "bytes") return byte_vocabulary();
  if (kind == "characters") return character_vocabulary(rest);
  if (kind == "gpt2") {  // the JSON has no line break outside strings, where they are escaped
    const std::size_t json_end = rest.find('\n');
    if (json_end != std::string::npos) return gpt2_vocabulary(rest.substr(0, json_end), rest.substr(json_end + 1));
  }
  fail(ExitCode::data, "expected a vocabulary of bytes, characters or gpt2, found '{}'", kind.substr(0, 40));
}

}  // namespace muster::dataset
