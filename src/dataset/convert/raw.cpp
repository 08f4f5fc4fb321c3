// Raw files: inputs of --dtype one sample after the other in --shape, targets one byte per sample.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

namespace muster::dataset {

std::string convert_raw(const ConvertOptions& options) {
  expect_file_pair(options);
  if (options.shape.empty()) fail(ExitCode::usage, "convert raw: expected --shape of one sample, e.g. 1,28,28");
  if (options.dtype != "uint8" && options.dtype != "float32")
    fail(ExitCode::usage, "convert raw: --dtype: expected uint8 or float32, found '{}'", options.dtype);
  const DType type = options.dtype == "uint8" ? DType::u8 : DType::f32;
  const Shape shape(options.shape);
  const auto inputs = read_bytes(options.inputs[0]), targets = read_bytes(options.targets[0]);
  const auto elements = static_cast<std::size_t>(shape.elements());  // times its size it may not fit
  const std::size_t width = size_of(type), sample_bytes = elements * width;
  if (inputs.empty() || elements > inputs.size() / width || inputs.size() % sample_bytes != 0)
    fail(ExitCode::data, "{}: expected samples of {} elements ({} {}), found {} bytes", options.inputs[0], elements,
         options.dtype, shape.text(), inputs.size());
  const std::size_t samples = inputs.size() / sample_bytes;
  if (targets.size() != samples)
    fail(ExitCode::data, "{}: expected one label byte for each of {} samples, found {} bytes", options.targets[0],
         samples, targets.size());
  ConvertWriter writer(options, static_cast<std::int64_t>(samples), type, shape, DType::u8, {});
  writer.add_inputs(inputs);
  writer.add_targets(targets);
  return writer.close();
}

}  // namespace muster::dataset
