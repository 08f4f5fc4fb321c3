// The tree: parsed with places, written so that it is read back the same.
#include "config/node.hpp"
#include "config/document.hpp"

#include <gtest/gtest.h>

namespace muster::config {
namespace {

Node parse(const std::string& text) {
  Problems problems;
  Node node = parse_document(text, "t.yaml", problems);
  EXPECT_TRUE(problems.empty()) << text;
  return node;
}

bool is_equal(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size() || a.entries.size() != b.entries.size())
    return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!is_equal(a.items[i], b.items[i])) return false;
  for (std::size_t i = 0; i < a.entries.size(); ++i)
    if (a.entries[i].key != b.entries[i].key || !is_equal(a.entries[i].value, b.entries[i].value)) return false;
  return true;
}

TEST(Document, EveryNodeHasItsPlace) {
  const Node root = parse("a:\n  b: [1, {c: 2}]\n  d:\n");
  const Node* a = root.find("a");
  ASSERT_TRUE(a && a->find("b") && a->find("d"));
  EXPECT_EQ(a->find("b")->place.text(), "t.yaml:2:6");
  EXPECT_EQ(a->find("b")->items[1].find("c")->place.text(), "t.yaml:2:14");
  EXPECT_TRUE(a->find("d")->is_null());
  EXPECT_EQ(a->find("d")->place.text(), "t.yaml:3:3");  // nothing has no place: that of its key
  EXPECT_EQ(a->entries[1].place.text(), "t.yaml:3:3");
}

TEST(Document, QuotedScalarsAreStrings) {
  const Node root = parse("a: '5'\nb: \"5\"\nc: 5\n");
  EXPECT_TRUE(root.find("a")->is_quoted);
  EXPECT_TRUE(root.find("b")->is_quoted);
  EXPECT_FALSE(root.find("c")->is_quoted);
}

TEST(Document, AliasesStandForTheirNode) {
  const Node root = parse("a: &x {k: [1, 2]}\nb: *x\n");
  EXPECT_TRUE(is_equal(*root.find("a"), *root.find("b")));
}

TEST(Document, EndlessAliasesAreRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) text += (k ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  Problems problems;
  parse_document(text, "t.yaml", problems);
  EXPECT_THROW(problems.throw_if_any(), std::exception);
}

TEST(Write, ReadsBackTheSame) {
  const std::vector<std::string> words{"plain",
                                       "true",
                                       "no",
                                       "null",
                                       "",
                                       "5",
                                       "1e-4",
                                       ".5",
                                       "~",
                                       "two words",
                                       "a: b",
                                       "a#b",
                                       "#a",
                                       "it's",
                                       "a\"b",
                                       "a\\b",
                                       "-x",
                                       " front",
                                       "behind ",
                                       "tab\tand\nline",
                                       "[x]",
                                       "{x}",
                                       "@x",
                                       "&x",
                                       "*x",
                                       "/train/images",
                                       "data/x-1.h5",
                                       "./x",
                                       "0x10",
                                       "ünïcode"};
  Node items = sequence({});
  Node entries = map();
  for (const std::string& word : words) {
    items.items.push_back(string_scalar(word));
    entries.put(word, string_scalar(word));
  }
  EXPECT_TRUE(is_equal(parse(write_flow(items)), items)) << write_flow(items);
  EXPECT_TRUE(is_equal(parse(write_block(entries)), entries)) << write_block(entries);
  const Node nested =
      map({{"a", sequence({map({{"k", items}, {"l", entries}}), sequence({}), map()})}, {"b", map({{"c", items}})}});
  EXPECT_TRUE(is_equal(parse(write_block(nested)), nested)) << write_block(nested);
  EXPECT_TRUE(is_equal(parse(write_flow(nested)), nested)) << write_flow(nested);
}

TEST(Write, LongMapsOpenIntoLinesAndShortOnesDoNot) {
  const Node small = map({{"grid", map({{"data", scalar("auto")}, {"tensor", scalar("1")}})}});
  EXPECT_EQ(write_block(small), "grid: {data: auto, tensor: 1}\n");
  const std::string word(60, 'x');
  const Node large =
      map({{"a", map({{"b", scalar(word)}, {"c", scalar(word)}})}, {"d", sequence({map({{"e", scalar("1")}})})}});
  EXPECT_EQ(write_block(large), "a:\n  b: " + word + "\n  c: " + word + "\nd: [{e: 1}]\n");
}

}  // namespace
}  // namespace muster::config
