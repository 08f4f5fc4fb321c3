// Text files to token ids: all files joined in the order given, then cut once into a training and a test part.
#include "dataset/convert/formats.hpp"
#include "dataset/hdf5/token_file.hpp"

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/vocabulary.hpp>

#include <cmath>

namespace muster::dataset {
namespace {

std::string read_text(const std::string& path) {
  const std::vector<std::byte> bytes = read_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<Vocabulary> make_vocabulary(const ConvertOptions& options, const std::string& text) {
  const bool has_files = !options.vocabulary.empty() || !options.merges.empty();
  if (options.encoding == "gpt2") {
    if (options.vocabulary.empty() || options.merges.empty())
      fail(ExitCode::usage, "convert text: gpt2 needs --vocabulary vocab.json and --merges merges.txt");
    return gpt2_vocabulary(read_text(options.vocabulary), read_text(options.merges));
  }
  if (has_files) fail(ExitCode::usage, "convert text: --vocabulary and --merges are for --encoding gpt2");
  if (options.encoding == "bytes") return byte_vocabulary();
  if (options.encoding == "characters") return character_vocabulary(text);
  const std::vector<std::string> known{"bytes", "characters", "gpt2"};
  fail(ExitCode::usage, "convert text: --encoding: expected bytes, characters or gpt2, found '{}'{}", options.encoding,
       did_you_mean(options.encoding, known));
}

}  // namespace

std::string convert_text(const ConvertOptions& options) {
  if (!(options.test_share >= 0 && options.test_share < 1))
    fail(ExitCode::usage, "convert text: --test-share: expected 0 <= share < 1, found {}", options.test_share);
  if (options.is_appended || !options.targets.empty())
    fail(ExitCode::usage, "convert text: takes neither --append nor --target: the targets are the next tokens");
  std::string text;
  for (const std::string& path : options.inputs) text += read_text(path);
  const auto vocabulary = make_vocabulary(options, text);
  const std::vector<std::int32_t> ids = vocabulary->encode(text);
  if (ids.empty()) fail(ExitCode::data, "convert text: expected text, found none in {}", join(options.inputs, ", "));
  const auto test = static_cast<std::size_t>(std::floor(static_cast<double>(ids.size()) * options.test_share));
  const std::span<const std::int32_t> all(ids);
  hdf5::write_tokens(options.output, all.first(ids.size() - test), all.last(test), vocabulary->serialise(),
                     vocabulary->size(), options.is_forced);
  return fmt::format("{}: train/tokens {}, test/tokens {}, vocabulary of {} {}", options.output, ids.size() - test,
                     test, vocabulary->size(), options.encoding);
}

}  // namespace muster::dataset
