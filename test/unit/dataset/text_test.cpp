// Vocabularies, the text converter, and windows of tokens read back.
#include "unit/message_of.hpp"

#include <gtest/gtest.h>

#include <muster/base/error.hpp>
#include <muster/dataset/convert.hpp>
#include <muster/dataset/dataset.hpp>
#include <muster/dataset/vocabulary.hpp>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <functional>

namespace muster::dataset {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

TEST(Vocabulary, BytesAndCharacters) {
  EXPECT_EQ(byte_vocabulary()->encode("a\xff"), (Ids{97, 255}));
  EXPECT_EQ(byte_vocabulary()->decode(Ids{97, 255}), "a\xff");
  const auto characters = character_vocabulary("héllo €");
  EXPECT_EQ(characters->size(), 6);  // space e... : ' ' h l o é €
  EXPECT_EQ(characters->encode("ho €é"), (Ids{1, 3, 0, 5, 4}));
  EXPECT_EQ(characters->decode(Ids{1, 3, 0, 5, 4}), "ho €é");
  EXPECT_EQ(test::message_of([&] { characters->encode("hx"); }),
            "the text has 'x', which is not among the 6 characters of the vocabulary");
  EXPECT_EQ(test::message_of([] { character_vocabulary("ab\xc3("); }),
            "expected UTF-8 text, found the byte 0xc3 at offset 2; bytes work with --encoding bytes");
  for (const auto& made : {parse_vocabulary(characters->serialise()), parse_vocabulary("bytes\n")})
    EXPECT_EQ(made->decode(made->encode("hl lo")), "hl lo");
  EXPECT_EQ(test::message_of([] { parse_vocabulary("words\nx"); }),
            "expected a vocabulary of bytes, characters or gpt2, found 'words'");
}

/// The 256 bytes in the order of GPT-2's files, then the results of the merges, then the end mark.
struct SmallGpt2 {
  SmallGpt2() {
    const auto add = [&](const std::string& token) {
      json += (next ? ", " : "{") + ("\"" + token + "\": ") + std::to_string(next), ++next;
    };
    const auto utf8 = [](int p) {
      return p < 0x80 ? std::string{static_cast<char>(p)}
                      : std::string{static_cast<char>(0xC0 | p >> 6), static_cast<char>(0x80 | (p & 0x3F))};
    };
    const auto is_printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    for (int b = 0; b < 256; ++b)
      if (is_printable(b)) add(b == '"' || b == '\\' ? std::string("\\") + static_cast<char>(b) : utf8(b));
    for (int b = 0, odd = 0; b < 256; ++b)
      if (!is_printable(b)) add(utf8(256 + odd++));
    first_merged = next;
    for (const char* token : {"th", "the", "Ġthe", "er", "ther"}) add(token);
    json += "}";
  }
  std::string json, merges = "#version: 0.2\nt h\nth e\nĠ the\ne r\nth er\n";
  int first_merged = 0;
  int next = 0;  // the id of the next token
};

TEST(Vocabulary, Gpt2MergesByRankInsideWords) {
  const SmallGpt2 files;
  const auto vocabulary = gpt2_vocabulary(files.json, files.merges);
  const int the = files.first_merged + 1, spaced_the = the + 1, er = the + 2;
  EXPECT_EQ(vocabulary->size(), 256 + 5);
  // '!' is id 0, so letters are their code less 33; the space is the 33rd unprintable byte: 188 + 32
  EXPECT_EQ(vocabulary->encode("the"), (Ids{the}));
  EXPECT_EQ(vocabulary->encode("the the"), (Ids{the, spaced_the}));
  EXPECT_EQ(vocabulary->encode("ther"), (Ids{the, 'r' - 33}));  // "th e" is before "e r"
  EXPECT_EQ(vocabulary->encode("her"), (Ids{'h' - 33, er}));
  EXPECT_EQ(vocabulary->encode("t2h's"), (Ids{'t' - 33, '2' - 33, 'h' - 33, '\'' - 33, 's' - 33}));
  EXPECT_EQ(vocabulary->encode("a  the"), (Ids{'a' - 33, 220, spaced_the}));  // the last space goes with the word
  EXPECT_EQ(vocabulary->encode(" "), (Ids{220}));
  EXPECT_EQ(vocabulary->encode(""), Ids{});
  const std::string text = "Über the\n\n  other, don't 12€ \t end ";
  EXPECT_EQ(vocabulary->decode(vocabulary->encode(text)), text);
  EXPECT_EQ(parse_vocabulary(vocabulary->serialise())->encode(text), vocabulary->encode(text));
}

TEST(Vocabulary, Gpt2KeepsNumbersOfAllScriptsFromLetters) {
  // Merges of a sign with the first byte of a number: they show which are in one word.
  SmallGpt2 files;
  files.json.pop_back();
  for (const char* token : {"2Â", "aÂ", "2Ù", "aÙ"}) files.json += fmt::format(", \"{}\": {}", token, files.next++);
  files.json += "}";
  files.merges += "2 Â\na Â\n2 Ù\na Ù\n";
  const auto vocabulary = gpt2_vocabulary(files.json, files.merges);
  // Bytes: superscript two C2 B2 (ids 126, 110), Arabic-Indic three D9 A3 (149, 96)
  EXPECT_EQ(vocabulary->encode("2²"), (Ids{261, 110}));
  EXPECT_EQ(vocabulary->encode("a²"), (Ids{'a' - 33, 126, 110}));
  EXPECT_EQ(vocabulary->encode("2٣"), (Ids{263, 96}));
  EXPECT_EQ(vocabulary->encode("a٣"), (Ids{'a' - 33, 149, 96}));
  EXPECT_EQ(vocabulary->encode("aª"), (Ids{262, 103}));  // the ordinal indicator C2 AA is a letter
}

TEST(Vocabulary, Gpt2FilesAreChecked) {
  const SmallGpt2 files;
  EXPECT_EQ(test::message_of([] { gpt2_vocabulary("[]", ""); }), "vocab.json: expected a map of tokens to ids");
  EXPECT_EQ(test::message_of([] { gpt2_vocabulary("{\"a\": 0, \"b\": 2}", ""); }),
            "vocab.json: expected each id from 0 to 1 once, found 2 for 'b'");
  EXPECT_EQ(test::message_of([] { gpt2_vocabulary("{\"a\": 0}", ""); }),
            "vocab.json: expected a token for each byte, none for 0");
  const auto vocabulary = gpt2_vocabulary(files.json, files.merges + "a b\n");
  EXPECT_EQ(test::message_of([&] { vocabulary->encode("cab"); }),
            "merges.txt makes the token 'ab', which vocab.json does not have: expected files that belong together");
}

class Text : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("text-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    options_.format = "text";
    options_.inputs = {write("a.txt", "abcabcab"), write("b.txt", "dd")};
    options_.output = (folder_ / "tokens.h5").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  DataOptions data(std::int64_t window, std::int64_t stride = 0) const {
    DataOptions data;
    data.train.files = {options_.output};
    data.train.tokens = "train/tokens";
    data.train.window = window;
    data.train.stride = stride;
    data.test = data.train;
    data.test.tokens = "test/tokens";
    return data;
  }
  static std::pair<std::vector<std::uint8_t>, Ids> sample(Dataset& set, std::int64_t index) {
    std::vector<std::uint8_t> inputs(static_cast<std::size_t>(set.input_shape().elements()));
    Ids targets(inputs.size());
    set.read(std::span(&index, 1), inputs.data(), targets.data());
    return {inputs, targets};
  }
  using Sample = std::pair<std::vector<std::uint8_t>, Ids>;
  fs::path folder_;
  ConvertOptions options_;
};

TEST_F(Text, WindowsCoverEveryTokenOnce) {
  options_.test_share = 0.3;
  EXPECT_EQ(convert(options_), options_.output + ": train/tokens 7, test/tokens 3, vocabulary of 4 characters");
  const auto train = open_train(data(3), 0);  // abcabca
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(train->input_shape(), Shape{3});
  EXPECT_TRUE(train->has_class_labels());
  EXPECT_EQ(sample(*train, 0), (Sample{{0, 1, 2}, {1, 2, 0}}));
  EXPECT_EQ(sample(*train, 1), (Sample{{0, 1, 2}, {1, 2, 0}}));
  const auto test = open_test(data(2), 0);  // bdd
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(sample(*test, 0), (Sample{{1, 3}, {3, 3}}));
  EXPECT_EQ(parse_vocabulary(read_vocabulary(data(3)))->decode(Ids{3, 0}), "da");
}

TEST_F(Text, StrideOneGivesEveryWindow) {
  convert(options_);
  const auto train = open_train(data(3, 1), 0);  // abcabcabdd: 10 tokens, windows of 4
  EXPECT_EQ(train->size(), 7);
  EXPECT_EQ(sample(*train, 1), (Sample{{1, 2, 0}, {2, 0, 1}}));
  EXPECT_EQ(sample(*train, 6), (Sample{{0, 1, 3}, {1, 3, 3}}));
  check_labels(*train, 4);
  EXPECT_NE(test::message_of([&] { check_labels(*train, 3); }).find("sample 6 has label 3, expected 0 <= label < 3"),
            std::string::npos);
  DataOptions part = data(3, 1);
  part.train.range = Range{2, 4};
  const auto two = open_train(part, 0);
  EXPECT_EQ(two->size(), 2);
  EXPECT_EQ(sample(*two, 0), (Sample{{2, 0, 1}, {0, 1, 2}}));
}

TEST_F(Text, Refusals) {
  const auto error = [&] { return test::message_of([&] { convert(options_); }); };
  options_.encoding = "byte";
  EXPECT_EQ(error(),
            "convert text: --encoding: expected bytes, characters or gpt2, found 'byte'; did you mean 'bytes'?");
  options_.encoding = "gpt2";
  EXPECT_EQ(error(), "convert text: gpt2 needs --vocabulary vocab.json and --merges merges.txt");
  options_.encoding = "bytes";
  options_.test_share = 1;
  EXPECT_EQ(error(), "convert text: --test-share: expected 0 <= share < 1, found 1");
  options_.test_share = 0;
  convert(options_);
  EXPECT_EQ(error(), options_.output + " exists already; replace it with --force");
  EXPECT_NE(test::message_of([&] { open_train(data(10), 0); }).find("holds 10 tokens, too few for one window of 10"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(options_.output + ".tmp"));
}

}  // namespace
}  // namespace muster::dataset
