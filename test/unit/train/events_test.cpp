// Event files for TensorBoard, byte by byte: the framing against a published check value of CRC-32C, the messages
// against a reader written here after the wire format. The real TensorBoard, where installed: end2end/cli.sh.
#include "unit/train/scratch.hpp"

#include <muster/base/file.hpp>
#include <muster/train/metrics.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

namespace muster::train {
namespace {

template <class T>
T raw(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// CRC-32C of "123456789" is e3069283 (the check value by which the catalogues of CRCs list it).
// Masked: e3069283 >> 15 is 0001c60d, << 17 is 25060000; together 2507c60d; plus a282ead8: c78ab0e5.
TEST(Events, RecordsAreFramedWithMaskedChecksums) {
  const std::string record = framed("123456789");
  ASSERT_EQ(record.size(), 8u + 4 + 9 + 4);
  EXPECT_EQ(raw<std::uint64_t>(record, 0), 9u);
  EXPECT_EQ(record.substr(12, 9), "123456789");
  EXPECT_EQ(raw<std::uint32_t>(record, 21), 0xc78ab0e5U);
}

/// Fields of one message: number to its values, as bytes or as varints.
struct Message {
  std::multimap<int, std::string> bytes;
  std::map<int, std::uint64_t> numbers;
};

std::uint64_t varint(const std::string& text, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(text.at(at++));
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

Message parse(const std::string& text) {
  Message message;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint64_t key = varint(text, at);
    const int field = static_cast<int>(key >> 3);
    std::size_t size = 0;
    switch (key & 7) {
      case 0:
        message.numbers[field] = varint(text, at);
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint(text, at);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return message;
    }
    message.bytes.emplace(field, text.substr(at, size));
    at += size;
  }
  return message;
}

std::vector<Message> events_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Message> events;
  for (const auto& file : files) {
    const std::string text = read_file(file);
    for (std::size_t at = 0; at < text.size();) {
      const auto size = raw<std::uint64_t>(text, at);
      EXPECT_EQ(framed(text.substr(at + 12, size)), text.substr(at, size + 16));
      events.push_back(parse(text.substr(at + 12, size)));
      at += size + 16;
    }
  }
  return events;
}

std::map<std::string, float> scalars_in(const Message& event) {
  std::map<std::string, float> scalars;
  const Message summary = parse(event.bytes.find(5)->second);
  for (auto [at, end] = summary.bytes.equal_range(1); at != end; ++at) {
    const Message value = parse(at->second);
    scalars[value.bytes.find(1)->second] = raw<float>(value.bytes.find(2)->second, 0);
  }
  return scalars;
}

TEST(Events, HoldTheNumbersOfTheMetrics) {
  const test::Scratch scratch;
  {
    MetricsWriter writer(scratch / "metrics.jsonl", -1, true);
    writer.write(
        {{"step", std::int64_t{300}}, {"samples", std::int64_t{9}}, {"loss", 0.5}, {"shares", std::string("x")}});
    writer.write({{"step", std::int64_t{300}}, {"split", std::string("test")}, {"accuracy", 0.75}});
  }
  { MetricsWriter resumed(scratch / "metrics.jsonl", 300, true); }
  const auto events = events_in(scratch.path());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].bytes.find(3)->second, "brain.Event:2");
  EXPECT_EQ(events[1].numbers.at(2), 300u);
  EXPECT_EQ(scalars_in(events[1]), (std::map<std::string, float>{{"train/loss", 0.5F}}));
  EXPECT_EQ(scalars_in(events[2]), (std::map<std::string, float>{{"test/accuracy", 0.75F}}));
  EXPECT_EQ(events[3].bytes.find(3)->second, "brain.Event:2");
  EXPECT_EQ(events[4].numbers.at(2), 301u);  // the session starts after the resumed step
  EXPECT_EQ(parse(events[4].bytes.find(7)->second).numbers.at(1), 1u);
}

TEST(Events, AreNotWrittenUnasked) {
  const test::Scratch scratch;
  MetricsWriter writer(scratch / "metrics.jsonl", -1);
  writer.write({{"step", std::int64_t{1}}, {"loss", 1.0}});
  EXPECT_TRUE(events_in(scratch.path()).empty());
}

}  // namespace
}  // namespace muster::train
