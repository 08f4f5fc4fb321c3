// NumPy's .npy files, versions 1 and 2, C order, little-endian: u1, f4, f8 inputs; integer or float targets.
// Format: NumPy enhancement proposal 1.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

#include <cctype>

namespace muster::dataset {
namespace {

struct Npy {
  std::string type;  // "u1", "f4", ...
  Shape shape;
  std::span<const std::byte> data;
};

/// The value behind 'key': in the header, a Python dictionary.
std::string_view value_of(std::string_view header, const std::string& key) {
  const auto at = header.find("'" + key + "'");
  if (at == std::string_view::npos) return {};
  const auto begin = header.find_first_not_of(" ", header.find(':', at) + 1);
  return header.substr(begin);
}

Npy parse(const std::string& path, const std::vector<std::byte>& content) {
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  const auto byte_at = [&](std::size_t i) { return std::to_integer<std::size_t>(content[i]); };
  if (text.size() < 12 || text.substr(0, 6) != "\x93NUMPY")
    fail(ExitCode::data, "{}: expected a .npy file, found another format", path);
  const bool is_version_1 = byte_at(6) == 1;
  const std::size_t start = is_version_1 ? 10 : 12;
  std::size_t length = byte_at(8) | byte_at(9) << 8;
  if (!is_version_1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (text.size() < start + length) fail(ExitCode::data, "{}: truncated in its header", path);
  const std::string_view header = text.substr(start, length);
  if (value_of(header, "fortran_order").starts_with("True"))
    fail(ExitCode::data, "{}: expected C order, found Fortran order; save it with numpy.ascontiguousarray", path);
  Npy npy;
  const std::string_view descr = value_of(header, "descr");
  npy.type = descr.size() > 4 ? std::string(descr.substr(2, 2)) : "";
  if (descr.size() > 4 && descr[1] == '>')
    fail(ExitCode::data, "{}: expected little-endian numbers, found {}", path, descr.substr(0, 5));
  std::vector<std::int64_t> extents;
  const std::string_view shape = value_of(header, "shape");
  std::int64_t number = -1;
  for (char c : shape.substr(0, shape.find(')') + 1)) {
    if (std::isdigit(static_cast<unsigned char>(c))) number = std::max<std::int64_t>(number, 0) * 10 + (c - '0');
    else if (number >= 0) extents.push_back(number), number = -1;
  }
  npy.shape = Shape(extents);
  if (extents.empty()) fail(ExitCode::data, "{}: expected samples along the first axis, found a scalar", path);
  npy.data = std::span(content).subspan(start + length);
  const std::size_t width = npy.type.empty() ? 0 : static_cast<std::size_t>(npy.type[1] - '0');
  if (npy.data.size() != static_cast<std::size_t>(npy.shape.elements()) * width)
    fail(ExitCode::data, "{}: expected {} elements of type {}, found {} bytes: truncated or of another type", path,
         npy.shape.elements(), npy.type, npy.data.size());
  return npy;
}

template <class From, class To>
std::vector<std::byte> cast(std::span<const std::byte> data) {
  const std::size_t count = data.size() / sizeof(From);
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
  return out;
}

}  // namespace

std::string convert_npy(const ConvertOptions& options) {
  expect_file_pair(options);
  const auto input_bytes = read_bytes(options.inputs[0]), target_bytes = read_bytes(options.targets[0]);
  const Npy inputs = parse(options.inputs[0], input_bytes), targets = parse(options.targets[0], target_bytes);
  if (inputs.shape[0] != targets.shape[0])
    fail(ExitCode::data, "{} holds {} samples, {} holds {} targets", options.inputs[0], inputs.shape[0],
         options.targets[0], targets.shape[0]);
  Shape sample(std::vector<std::int64_t>(inputs.shape.begin() + 1, inputs.shape.end()));
  if (!options.shape.empty() && Shape(options.shape).elements() != sample.elements())
    fail(ExitCode::usage, "convert npy: --shape {} has {} elements, a sample has {}", Shape(options.shape).text(),
         Shape(options.shape).elements(), sample.elements());
  if (!options.shape.empty()) sample = Shape(options.shape);
  const Shape target(std::vector<std::int64_t>(targets.shape.begin() + 1, targets.shape.end()));

  std::vector<std::byte> values, wanted;
  DType input_type = DType::f32, target_type = DType::i32;
  if (inputs.type == "u1") input_type = DType::u8, values.assign(inputs.data.begin(), inputs.data.end());
  else if (inputs.type == "f4") values.assign(inputs.data.begin(), inputs.data.end());
  else if (inputs.type == "f8") values = cast<double, float>(inputs.data);
  else fail(ExitCode::data, "{}: expected inputs of type u1, f4 or f8, found {}", options.inputs[0], inputs.type);
  if (targets.type == "u1") wanted = cast<std::uint8_t, std::int32_t>(targets.data);
  else if (targets.type == "i4") wanted.assign(targets.data.begin(), targets.data.end());
  else if (targets.type == "i8") wanted = cast<std::int64_t, std::int32_t>(targets.data);
  else if (targets.type == "f4") target_type = DType::f32, wanted.assign(targets.data.begin(), targets.data.end());
  else if (targets.type == "f8") target_type = DType::f32, wanted = cast<double, float>(targets.data);
  else
    fail(ExitCode::data, "{}: expected targets of type u1, i4, i8, f4 or f8, found {}", options.targets[0],
         targets.type);

  ConvertWriter writer(options, inputs.shape[0], input_type, sample, target_type, target);
  writer.add_inputs(values);
  writer.add_targets(wanted);
  return writer.close();
}

}  // namespace muster::dataset
