// `muster convert`: foreign formats to HDF5.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/convert.hpp>

#include <algorithm>
#include <charconv>
#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;
namespace {

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  for (const std::string& part : split(text, ',')) {
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), extent);
    if (error != std::errc() || end != part.data() + part.size() || extent <= 0)
      fail(ExitCode::usage, "convert: --shape: expected positive numbers joined by commas, e.g. 1,28,28, found '{}'",
           text);
    shape.push_back(extent);
  }
  return shape;
}

/// A flag that means nothing to the format is an error, as everywhere.
void check_flags(const Arguments& arguments) {
  struct Flag {
    std::string name;
    std::vector<std::string> formats;
  };
  const std::vector<std::string> samples{"idx", "cifar10", "cifar100", "csv", "npy", "raw"}, text{"text"};
  const std::vector<Flag> flags{{"target", {"idx", "npy", "raw"}},
                                {"shape", {"csv", "npy", "raw"}},
                                {"dtype", {"raw"}},
                                {"label-column", {"csv"}},
                                {"append", samples},
                                {"inputs-name", samples},
                                {"targets-name", samples},
                                {"deflate", samples},
                                {"encoding", text},
                                {"vocabulary", text},
                                {"merges", text},
                                {"test-share", text}};
  const std::string format = arguments.text("FORMAT");
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!has(samples, format) && !has(text, format)) return;  // reported with the formats there are
  for (const Flag& flag : flags)
    if (arguments.is_given(flag.name) && !has(flag.formats, format))
      fail(ExitCode::usage, "convert {}: --{} has no meaning here; it is for {}", format, flag.name,
           join(flag.formats, ", "));
}

}  // namespace

int run_convert(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("input", po::value<std::vector<std::string>>()->multitoken(),
                      "files of the inputs (cifar, csv: the files themselves)")(
      "target", po::value<std::vector<std::string>>()->multitoken(), "files of the targets (idx, npy, raw)")(
      "output", po::value<std::string>(), "the HDF5 file to write")(
      "append", "add to an existing output, e.g. test/images beside train/images")(
      "inputs-name", po::value<std::string>()->default_value("images"), "name of the input dataset, e.g. train/images")(
      "targets-name", po::value<std::string>()->default_value("labels"),
      "name of the target dataset, e.g. train/labels")("shape", po::value<std::string>(),
                                                       "shape of one sample, e.g. 1,28,28 (csv, npy, raw)")(
      "dtype", po::value<std::string>()->default_value("uint8"), "raw: uint8 or float32")(
      "label-column", po::value<std::string>()->default_value("first"), "csv: first, last or a header name")(
      "deflate", po::value<int>()->default_value(0), "0: contiguous (fastest to read); 1-9: chunked and compressed")(
      "encoding", po::value<std::string>()->default_value("characters"), "text: bytes, characters or gpt2")(
      "vocabulary", po::value<std::string>()->default_value(""), "text, gpt2: the file vocab.json")(
      "merges", po::value<std::string>()->default_value(""), "text, gpt2: the file merges.txt")(
      "test-share", po::value<double>()->default_value(0.0),
      "text: this share of the text, from its end, becomes test/tokens")("force", "overwrite an existing output");
  const Arguments arguments("convert", {"FORMAT"}, flags, words);
  if (arguments.is_help()) {
    std::cout << "FORMAT is one of idx, cifar10, cifar100, csv, npy, raw, text.\n";
    return 0;
  }
  if (!arguments.has("input"))
    fail(ExitCode::usage, "convert: expected --input FILE..., found nothing; see muster convert --help");
  if (!arguments.has("output"))
    fail(ExitCode::usage, "convert: expected --output FILE, found nothing; see muster convert --help");
  check_flags(arguments);

  dataset::ConvertOptions options;
  options.format = arguments.text("FORMAT");
  options.inputs = arguments.list("input");
  options.targets = arguments.list("target");
  options.output = arguments.text("output");
  options.is_appended = arguments.has("append");
  options.inputs_name = arguments.text("inputs-name");
  options.targets_name = arguments.text("targets-name");
  if (arguments.has("shape")) options.shape = parse_shape(arguments.text("shape"));
  options.dtype = arguments.text("dtype");
  options.label_column = arguments.text("label-column");
  options.deflate = arguments.integer("deflate");
  options.encoding = arguments.text("encoding");
  options.vocabulary = arguments.text("vocabulary");
  options.merges = arguments.text("merges");
  options.test_share = arguments.number("test-share");
  options.is_forced = arguments.has("force");
  std::cout << dataset::convert(options) << "\n";
  return 0;
}

}  // namespace muster::cli
