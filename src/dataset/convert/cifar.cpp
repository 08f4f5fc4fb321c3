// CIFAR's binary files: records of one (CIFAR-10) or two (CIFAR-100: coarse, fine) label bytes and 3 x 32 x 32 bytes.
#include "dataset/convert/formats.hpp"
#include "dataset/convert/writer.hpp"

namespace muster::dataset {

std::string convert_cifar(const ConvertOptions& options) {
  constexpr std::size_t image_bytes = 3 * 32 * 32;
  const std::size_t label_bytes = options.format == "cifar100" ? 2 : 1, record = label_bytes + image_bytes;
  const std::size_t classes = options.format == "cifar100" ? 100 : 10;
  if (options.inputs.empty()) fail(ExitCode::usage, "convert {}: expected --input with the .bin files", options.format);
  if (!options.targets.empty())
    fail(ExitCode::usage, "convert {}: the labels are in the input files; --target has no meaning here",
         options.format);
  std::vector<std::byte> images, labels;
  for (const std::string& path : options.inputs) {
    const auto content = read_bytes(path);
    if (content.empty() || content.size() % record != 0)
      fail(ExitCode::data,
           "{}: expected records of {} bytes ({} binary version), found {} bytes: truncated or another format", path,
           record, options.format, content.size());
    for (std::size_t at = 0; at < content.size(); at += record) {
      labels.push_back(content[at + label_bytes - 1]);  // the fine label is the last
      if (std::to_integer<std::size_t>(labels.back()) >= classes)
        fail(ExitCode::data, "{}: record {}: expected a label below {} ({}), found {}: damaged, or another format",
             path, at / record, classes, options.format, std::to_integer<int>(labels.back()));
      images.insert(images.end(), content.begin() + static_cast<std::ptrdiff_t>(at + label_bytes),
                    content.begin() + static_cast<std::ptrdiff_t>(at + record));
    }
  }
  ConvertWriter writer(options, static_cast<std::int64_t>(labels.size()), DType::u8, {3, 32, 32}, DType::u8, {});
  writer.add_inputs(images);
  writer.add_targets(labels);
  return writer.close();
}

}  // namespace muster::dataset
