// The safetensors writer against a reader written here from the format's description, and the reader against damaged
// files.
#include "unit/train/scratch.hpp"
#include "unit/train/states.hpp"

#include <nlohmann/json.hpp>

namespace muster::train {
namespace {

using test::bytes_of;
using test::checkpoint_error;
using test::put_bytes;
using test::Scratch;
using test::tensor_of;

std::string file_of(const std::string& header, const std::vector<float>& data) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header;
  return bytes.append(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
}

TEST(Safetensors, AnIndependentReaderFindsEveryValue) {
  const Scratch scratch;
  const std::vector<NamedTensor> tensors{tensor_of("b", {2, 3}, 1.5f), tensor_of("a", {5}, -2.0f),
                                         tensor_of("ü\"n", {}, 9.0f), tensor_of("zero", {3, 0}, 0)};
  write_safetensors(scratch / "x", tensors);
  const std::string bytes = bytes_of(scratch / "x");
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = 256 * length + static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  EXPECT_EQ((8 + length) % 64, 0u);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  ASSERT_EQ(header.size(), tensors.size());
  std::size_t covered = 0;
  for (const NamedTensor& tensor : tensors) {
    const auto& entry = header.at(tensor.name);
    EXPECT_EQ(entry.at("dtype"), "F32");
    EXPECT_EQ(entry.at("shape").get<std::vector<std::int64_t>>(), tensor.shape.extents());
    const auto begin = entry.at("data_offsets").at(0).get<std::size_t>(),
               end = entry.at("data_offsets").at(1).get<std::size_t>();
    ASSERT_EQ(end - begin, tensor.values.size() * 4);
    ASSERT_LE(8 + length + end, bytes.size());
    const std::string expected(reinterpret_cast<const char*>(tensor.values.data()), end - begin);
    EXPECT_EQ(bytes.substr(8 + length + begin, end - begin), expected) << tensor.name;
    covered += end - begin;
  }
  EXPECT_EQ(8 + length + covered, bytes.size());
}

TEST(Safetensors, RoundTripInNameOrder) {
  const Scratch scratch;
  write_safetensors(scratch / "x", {tensor_of("b", {2, 3}, 1.5f), tensor_of("a", {5}, -2.0f)});
  const auto back = read_safetensors(scratch / "x");
  EXPECT_EQ(back, (std::vector<NamedTensor>{tensor_of("a", {5}, -2.0f), tensor_of("b", {2, 3}, 1.5f)}));
}

TEST(Safetensors, OrderOfTheArgumentDoesNotShow) {
  const Scratch scratch;
  write_safetensors(scratch / "x", {tensor_of("b", {2}, 1), tensor_of("a", {3}, 2)});
  write_safetensors(scratch / "y", {tensor_of("a", {3}, 2), tensor_of("b", {2}, 1)});
  EXPECT_EQ(bytes_of(scratch / "x"), bytes_of(scratch / "y"));
}

TEST(Safetensors, NoTensors) {
  const Scratch scratch;
  write_safetensors(scratch / "x", {});
  EXPECT_EQ(bytes_of(scratch / "x").size(), 64u);
  EXPECT_TRUE(read_safetensors(scratch / "x").empty());
}

TEST(Safetensors, ReadsFilesOfOthers) {
  const Scratch scratch;
  put_bytes(scratch / "x",
            file_of(R"({"__metadata__":{"by":"another"},"w":{"shape":[2],"data_offsets":[0,8],"dtype":"F32"}})",
                    {1.0f, -2.5f}));
  EXPECT_EQ(read_safetensors(scratch / "x"), (std::vector<NamedTensor>{{"w", {2}, {1.0f, -2.5f}}}));
}

TEST(Safetensors, EveryTruncationIsNoticed) {
  const Scratch scratch;
  write_safetensors(scratch / "x", {tensor_of("a", {5}, 1), tensor_of("b", {2}, 2)});
  const std::string whole = bytes_of(scratch / "x");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_bytes(scratch / "y", whole.substr(0, size));
    EXPECT_NE(checkpoint_error([&] { read_safetensors(scratch / "y"); }).find((scratch / "y").string()),
              std::string::npos)
        << size;
  }
  put_bytes(scratch / "y", whole + '\0');
  checkpoint_error([&] { read_safetensors(scratch / "y"); });
}

TEST(Safetensors, RefusesHeadersThatDoNotFit) {
  const Scratch scratch;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "its header is damaged"},
      {"[]", "its header is no JSON object"},
      {R"({"w":3})", "its header is damaged"},
      {R"({"w":{"dtype":"F32","shape":[2]}})", "its header is damaged"},
      {R"({"w":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", "'w' has dtype F16, expected F32"},
      {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "'w' of shape [3] lies at bytes 0 to 8 of 8"},
      {R"({"w":{"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]}})", "damaged or truncated"},
      {R"({"w":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}})", "damaged or truncated"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "damaged or truncated"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "8 bytes of data, its header describes 4"},
      {R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "damaged or truncated"}};
  for (const auto& [header, expected] : cases) {
    put_bytes(scratch / "x", file_of(header, {1.0f, 2.0f}));
    const std::string message = checkpoint_error([&] { read_safetensors(scratch / "x"); });
    EXPECT_NE(message.find(expected), std::string::npos) << header << "\n" << message;
  }
}

TEST(Safetensors, AMissingFileAndAFolderAreErrors) {
  const Scratch scratch;
  EXPECT_NE(checkpoint_error([&] { read_safetensors(scratch / "none"); }).find("No such file"), std::string::npos);
  checkpoint_error([&] { read_safetensors(scratch.path()); });
  checkpoint_error([&] { write_safetensors(scratch / "no/folder", {}); });
}

TEST(Safetensors, TwoTensorsOfOneNameAreADefect) {
  const Scratch scratch;
  EXPECT_THROW(write_safetensors(scratch / "x", {tensor_of("a", {1}, 1), tensor_of("a", {1}, 2)}), Error);
  EXPECT_THROW(write_safetensors(scratch / "x", {{"a", {2}, {1.0f}}}), Error);
}

}  // namespace
}  // namespace muster::train
