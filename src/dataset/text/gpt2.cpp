// GPT-2's byte-pair encoding. The text is cut into words (contractions, letters, numbers, other signs, each with at
// most one space before it, and runs of space); the bytes of a word are written as printable characters, and neighbours
// are merged in the order of the merge table until no pair is in it.
#include <muster/dataset/vocabulary.hpp>

#include "dataset/text/numbers.hpp"
#include "dataset/text/utf8.hpp"

#include <muster/base/error.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <clocale>
#include <cwctype>
#include <limits>
#include <sstream>
#include <unordered_map>

namespace muster::dataset {
namespace {

/// Which code point stands for each byte: printable Latin-1 characters for themselves, the others from U+0100 on.
std::array<std::string, 256> byte_names() {
  std::array<std::string, 256> names;
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool is_printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    names[b] = utf8_of(is_printable ? b : next++);
  }
  return names;
}

/// Letters, numbers and spaces of all scripts; what is no number by the C.UTF-8 locale, whose letters include digits.
class Classes {
 public:
  enum Class { letter, number, space, other };
  Classes() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (!locale_) fail(ExitCode::launch, "the locale C.UTF-8 is not installed; GPT-2's vocabulary needs it");
  }
  ~Classes() { freelocale(locale_); }
  Classes(const Classes&) = delete;
  Classes& operator=(const Classes&) = delete;
  Class of(char32_t point) const {
    if (is_number(point)) return number;
    const auto c = static_cast<std::wint_t>(point);
    if (iswspace_l(c, locale_) != 0 || point == 0xA0) return space;
    return iswalpha_l(c, locale_) != 0 ? letter : other;
  }

 private:
  locale_t locale_;
};

class Gpt2 : public Vocabulary {
 public:
  Gpt2(const std::string& vocab_json, const std::string& merges) : merges_text_(merges), bytes_(byte_names()) {
    read_tokens(vocab_json);
    std::istringstream lines(merges);
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && !line.starts_with("#version")) {
        const std::size_t rank = ranks_.size();
        ranks_.emplace(line, rank);
      }
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
      if (!ids_.contains(bytes_[b])) fail(ExitCode::data, "vocab.json: expected a token for each byte, none for {}", b);
      byte_of_[bytes_[b]] = static_cast<char>(b);
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    std::unordered_map<std::string, std::vector<std::int32_t>> known;
    for (const std::string& word : words(code_points(text))) {
      auto& pieces = known[word];
      if (pieces.empty()) pieces = merge(word);
      ids.insert(ids.end(), pieces.begin(), pieces.end());
    }
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (std::int32_t id : ids)
      for (char32_t point : code_points(tokens_[static_cast<std::size_t>(id)]))
        if (const auto found = byte_of_.find(utf8_of(point)); found != byte_of_.end()) text += found->second;
    return text;
  }

  std::string serialise() const override {
    nlohmann::json tokens;
    for (std::size_t id = 0; id < tokens_.size(); ++id) tokens[tokens_[id]] = id;
    return "gpt2\n" + tokens.dump() + "\n" + merges_text_;
  }

 private:
  void read_tokens(const std::string& vocab_json) {
    const auto json = nlohmann::json::parse(vocab_json, nullptr, false);
    if (!json.is_object() || json.empty()) fail(ExitCode::data, "vocab.json: expected a map of tokens to ids");
    tokens_.resize(json.size());
    std::vector<bool> is_set(json.size(), false);
    for (const auto& [token, id] : json.items()) {
      const bool is_good = id.is_number_unsigned() && id.get<std::uint64_t>() < json.size();
      if (!is_good || is_set[id.get<std::size_t>()])
        fail(ExitCode::data, "vocab.json: expected each id from 0 to {} once, found {} for '{}'", json.size() - 1,
             id.dump(), token);
      is_set[id.get<std::size_t>()] = true;
      tokens_[id.get<std::size_t>()] = token;
      ids_[token] = id.get<std::int32_t>();
    }
  }

  /// The words of a text.
  std::vector<std::string> words(const std::vector<char32_t>& text) const {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = word_end(text, at);
      std::string word;
      for (; at < end; ++at) word += utf8_of(text[at]);
      words.push_back(std::move(word));
    }
    return words;
  }

  std::size_t word_end(const std::vector<char32_t>& text, std::size_t at) const {
    for (const std::u32string_view ending : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"})
      if (std::u32string_view(text.data() + at, std::min(ending.size(), text.size() - at)) == ending)
        return at + ending.size();
    const auto end_of = [&](std::size_t from, Classes::Class kind) {
      while (from < text.size() && classes_.of(text[from]) == kind) ++from;
      return from;
    };
    const std::size_t start = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
    const Classes::Class kind = classes_.of(text[start]);
    if (kind != Classes::space) return end_of(start, kind);
    const std::size_t end = end_of(at, Classes::space);  // the last space belongs to the word after it
    return end < text.size() && end - at > 1 ? end - 1 : end;
  }

  std::vector<std::int32_t> merge(const std::string& word) const {
    std::vector<std::string> parts;
    for (char c : word) parts.push_back(bytes_[static_cast<unsigned char>(c)]);
    for (;;) {
      std::size_t best = 0, best_rank = std::numeric_limits<std::size_t>::max();
      for (std::size_t i = 0; i + 1 < parts.size(); ++i)
        if (const auto found = ranks_.find(parts[i] + " " + parts[i + 1]);
            found != ranks_.end() && found->second < best_rank)
          best = i, best_rank = found->second;
      if (best_rank == std::numeric_limits<std::size_t>::max()) break;
      const std::string left = parts[best], right = parts[best + 1];
      std::vector<std::string> merged;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool is_pair = i + 1 < parts.size() && parts[i] == left && parts[i + 1] == right;
        merged.push_back(is_pair ? left + right : parts[i]);
        if (is_pair) ++i;
      }
      parts = std::move(merged);
    }
    std::vector<std::int32_t> ids;
    for (const std::string& part : parts) {
      const auto found = ids_.find(part);
      if (found == ids_.end())
        fail(ExitCode::data,
             "merges.txt makes the token '{}', which vocab.json does not have: expected files that belong "
             "together",
             part);
      ids.push_back(found->second);
    }
    return ids;
  }

  std::string merges_text_;
  std::array<std::string, 256> bytes_;
  std::unordered_map<std::string, char> byte_of_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::size_t> ranks_;  // "left right"
  Classes classes_;
};

}  // namespace

std::unique_ptr<Vocabulary> gpt2_vocabulary(const std::string& vocab_json, const std::string& merges) {
  return std::make_unique<Gpt2>(vocab_json, merges);
}

}  // namespace muster::dataset
