// NumPy's .npy files, versions 1 and 2, C order, little-endian: u1, f4, f8 inputs; integer or float targets.
// Format: NumPy enhancement proposal 1.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

#include <muster/base/text.hpp>

#include <charconv>
#include <limits>

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
  const auto colon = header.find(':', at);
  const auto begin = colon == std::string_view::npos ? colon : header.find_first_not_of(" ", colon + 1);
  return begin == std::string_view::npos ? std::string_view() : header.substr(begin);
}

/// The header's shape, a Python tuple.
Shape shape_of(const std::string& path, std::string_view header) {
  const std::string_view tuple = value_of(header, "shape");
  std::vector<std::int64_t> extents;
  const auto end = tuple.find(')');
  if (!tuple.starts_with('(') || end == std::string_view::npos)
    fail(ExitCode::data, "{}: expected a shape such as (60000, 28, 28) in its header, found '{}': truncated", path,
         tuple.substr(0, 40));
  for (const std::string& part : split(tuple.substr(1, end - 1), ',')) {
    const auto digits = part.find_first_not_of(' ');
    if (digits == std::string::npos) continue;  // behind the last comma
    std::int64_t extent = 0;
    const auto [stop, error] = std::from_chars(part.data() + digits, part.data() + part.size(), extent);
    if (error != std::errc() || stop != part.data() + part.size() || extent < 0)
      fail(ExitCode::data, "{}: expected extents in the shape of its header, found '{}'", path, part);
    extents.push_back(extent);
  }
  if (extents.empty()) fail(ExitCode::data, "{}: expected samples along the first axis, found a scalar", path);
  return Shape(extents);
}

/// Bytes of one number of the types read here: u1, i4, i8, f4, f8; else 0.
std::size_t width_of(const std::string& type) {
  for (const char* known : {"u1", "i4", "i8", "f4", "f8"})
    if (type == known) return static_cast<std::size_t>(known[1] - '0');
  return 0;
}

Npy parse(const std::string& path, const std::vector<std::byte>& content, const char* expected_types) {
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
  for (const char* key : {"descr", "fortran_order", "shape"})
    if (value_of(header, key).empty())
      fail(ExitCode::data, "{}: expected '{}' in its header, found none: truncated or damaged", path, key);
  if (value_of(header, "fortran_order").starts_with("True"))
    fail(ExitCode::data, "{}: expected C order, found Fortran order; save it with numpy.ascontiguousarray", path);
  Npy npy;
  const std::string_view descr = value_of(header, "descr");
  npy.type = descr.size() > 4 ? std::string(descr.substr(2, 2)) : "";
  if (descr.size() > 4 && descr[1] == '>')
    fail(ExitCode::data, "{}: expected little-endian numbers, found {}", path, descr.substr(0, 5));
  const std::size_t width = width_of(npy.type);
  if (width == 0 || std::string_view(expected_types).find(npy.type) == std::string_view::npos)
    fail(ExitCode::data, "{}: expected numbers of type {}, found {}; convert them with numpy's astype", path,
         expected_types, descr.substr(0, std::min(descr.find(','), std::size_t{20})));
  npy.shape = shape_of(path, header);
  npy.data = std::span(content).subspan(start + length);
  const auto elements = static_cast<std::size_t>(elements_of(path, npy.shape));
  if (npy.data.size() % width != 0 || npy.data.size() / width != elements)
    fail(ExitCode::data, "{}: expected {} elements of type {}, found {} bytes: truncated or of another type", path,
         elements, npy.type, npy.data.size());
  return npy;
}

/// The numbers as another type. Throws Error(data) for one beyond its range (also NaN and Inf).
template <class From, class To>
std::vector<std::byte> cast(const std::string& path, std::span<const std::byte> data) {
  const std::size_t count = data.size() / sizeof(From);
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof(From), sizeof(From));
    // a comparison with NaN is false
    if (!(from >= std::numeric_limits<To>::lowest() && from <= std::numeric_limits<To>::max()))
      fail(ExitCode::data, "{}: element {}: expected a number within {} to {}, found {}", path, i,
           std::numeric_limits<To>::lowest(), std::numeric_limits<To>::max(), from);
    const To to = static_cast<To>(from);
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
  return out;
}

}  // namespace

std::string convert_npy(const ConvertOptions& options) {
  expect_file_pair(options);
  const auto input_bytes = read_bytes(options.inputs[0]), target_bytes = read_bytes(options.targets[0]);
  const Npy inputs = parse(options.inputs[0], input_bytes, "u1, f4 or f8"),
            targets = parse(options.targets[0], target_bytes, "u1, i4, i8, f4 or f8");
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
  else values = cast<double, float>(options.inputs[0], inputs.data);
  if (targets.type == "u1") wanted = cast<std::uint8_t, std::int32_t>(options.targets[0], targets.data);
  else if (targets.type == "i4") wanted.assign(targets.data.begin(), targets.data.end());
  else if (targets.type == "i8") wanted = cast<std::int64_t, std::int32_t>(options.targets[0], targets.data);
  else if (targets.type == "f4") target_type = DType::f32, wanted.assign(targets.data.begin(), targets.data.end());
  else target_type = DType::f32, wanted = cast<double, float>(options.targets[0], targets.data);

  ConvertWriter writer(options, inputs.shape[0], input_type, sample, target_type, target);
  writer.add_inputs(values);
  writer.add_targets(wanted);
  return writer.close();
}

}  // namespace muster::dataset
