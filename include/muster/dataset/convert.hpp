// Turning foreign formats into HDF5, and looking into HDF5 files. One file per format in src/dataset/convert/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::dataset {

/// What `muster convert` was asked for. One HDF5 file results, written to a temporary name and renamed: complete or
/// absent. It holds `images` and `labels` (or the given names), contiguous, and the attributes `mean`, `std` per
/// channel.
struct ConvertOptions {
  std::string format;                ///< idx | cifar10 | cifar100 | csv | npy | raw | text
  std::vector<std::string> inputs;   ///< idx, npy, raw: files of the inputs; cifar, csv: the files themselves
  std::vector<std::string> targets;  ///< idx, npy, raw: files of the targets
  std::string output;
  std::string inputs_name = "images", targets_name = "labels";
  std::vector<std::int64_t>
      shape;                    ///< raw, csv, npy: shape of one sample, e.g. 1,28,28 (idx images get a channel axis)
  std::string dtype = "uint8";  ///< raw: uint8 | float32
  std::string label_column = "first";   ///< csv: first | last | a header name
  std::string encoding = "characters";  ///< text: bytes | characters | gpt2
  std::string vocabulary, merges;       ///< text, gpt2: vocab.json and merges.txt
  double test_share = 0;                ///< text: this share of the text, from its end, becomes test/tokens
  bool is_forced = false;               ///< overwrite an existing output
  bool is_appended = false;  ///< add to an existing output (copied, extended, renamed): train and test in one file
  int deflate = 0;           ///< 0: contiguous; 1-9: chunked and compressed
};
/// Returns one line that says what was written. Throws Error(data) or Error(usage).
std::string convert(const ConvertOptions& options);

/// The text of `muster inspect FILE`: datasets with shape, type, layout, chunking, compression, read amplification of
/// random single-sample access, attributes; for label datasets a class histogram; for inputs minimum, maximum, NaN
/// count.
std::string inspect(const std::string& file, std::int64_t max_samples);

}  // namespace muster::dataset
