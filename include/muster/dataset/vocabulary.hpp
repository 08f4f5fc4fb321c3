// Text to token ids and back. Three kinds: bytes (256 ids), characters (the code points of a text, in order), and
// GPT-2's byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019) from its files vocab.json and merges.txt. A
// vocabulary is stored with the tokens it made, as text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::dataset {

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::int64_t size() const = 0;
  /// Throws Error(data) naming the first piece of the text that has no id.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Ids must be below size().
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// What parse_vocabulary reads.
  virtual std::string serialise() const = 0;
};

std::unique_ptr<Vocabulary> byte_vocabulary();
/// The different code points of a UTF-8 text, ascending. Throws Error(data) where the text is no UTF-8.
std::unique_ptr<Vocabulary> character_vocabulary(std::string_view text);
/// Contents of the two files. Words are cut as GPT-2 does; which code points beyond ASCII are letters is what the
/// C.UTF-8 locale says. Throws Error(data) where the files do not fit together.
std::unique_ptr<Vocabulary> gpt2_vocabulary(const std::string& vocab_json, const std::string& merges);
/// Throws Error(data).
std::unique_ptr<Vocabulary> parse_vocabulary(const std::string& serialised);

}  // namespace muster::dataset
