// The idx format of MNIST and Fashion-MNIST: two zero bytes, a type code, the rank, big-endian extents, the data.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

namespace muster::dataset {
namespace {

struct Idx {
  Shape shape;
  std::span<const std::byte> data;
};

Idx parse(const std::string& path, const std::vector<std::byte>& content, std::size_t least_rank) {
  const auto byte_at = [&](std::size_t i) { return std::to_integer<unsigned>(content[i]); };
  if (content.size() < 4 || byte_at(0) != 0 || byte_at(1) != 0)
    fail(ExitCode::data, "{}: expected an idx file (it starts with two zero bytes), found another format", path);
  if (byte_at(2) != 0x08)
    fail(ExitCode::data, "{}: expected idx of unsigned bytes (type 0x08), found type 0x{:02x}", path, byte_at(2));
  const std::size_t rank = byte_at(3), header = 4 + 4 * rank;
  if (rank < least_rank || content.size() < header)
    fail(ExitCode::data, "{}: expected at least {} axes, found {} in {} bytes", path, least_rank, rank, content.size());
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) extent = extent << 8 | byte_at(4 + 4 * axis + i);
    extents.push_back(extent);
  }
  const Shape shape(extents);
  if (content.size() - header != static_cast<std::size_t>(elements_of(path, shape)))
    fail(ExitCode::data, "{}: its header promises {} bytes of data for {}, found {}: truncated or damaged", path,
         shape.elements(), shape.text(), content.size() - header);
  return {shape, std::span(content).subspan(header)};
}

}  // namespace

std::string convert_idx(const ConvertOptions& options) {
  expect_file_pair(options);
  const auto input_bytes = read_bytes(options.inputs[0]), target_bytes = read_bytes(options.targets[0]);
  const Idx inputs = parse(options.inputs[0], input_bytes, 2), targets = parse(options.targets[0], target_bytes, 1);
  if (targets.shape.rank() != 1 || targets.shape[0] != inputs.shape[0])
    fail(ExitCode::data, "{} holds {} samples, {} holds targets {}: expected one label per sample", options.inputs[0],
         inputs.shape[0], options.targets[0], targets.shape.text());
  std::vector<std::int64_t> sample(inputs.shape.begin() + 1, inputs.shape.end());
  if (sample.size() == 2) sample.insert(sample.begin(), 1);  // images get a channel axis
  ConvertWriter writer(options, inputs.shape[0], DType::u8, Shape(sample), DType::u8, {});
  writer.add_inputs(inputs.data);
  writer.add_targets(targets.data);
  return writer.close();
}

}  // namespace muster::dataset
