// The `data:` section of the config.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/tensor/shape.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::dataset {

/// One split: files joined in the order given, datasets by name inside them, optionally only an index range.
struct SourceOptions {
  std::vector<std::string> files;
  std::string inputs =
      "images";  ///< dataset path inside each file, [n, ...] uint8 or float32 (any integer or float type)
  std::string targets = "labels";  ///< dataset path, [n] integers or [n, k...] floats
  std::string tokens = {};         ///< dataset path of one long row of token ids; excludes inputs and targets
  std::int64_t window = 0;         ///< tokens: ids per sample; the targets are the same ids one further on
  std::int64_t stride = 0;         ///< tokens: from one sample's start to the next; 0: the window
  std::optional<Range> range;      ///< only these samples (split by index range)
  bool is_set() const { return !files.empty(); }
};

/// A source made of numbers instead of files, to find the ceiling of the input path and for tests.
struct SyntheticOptions {
  std::int64_t samples = 0;  ///< 0: not synthetic
  std::int64_t test_samples = 0;
  std::int64_t classes = 10;  ///< labels are drawn; class means are separable so that training converges
  Shape shape;                ///< of one sample
};

struct NormaliseOptions {         ///< x = (x * scale - mean) / std per channel
  bool is_auto = true;            ///< mean and std as stored in the file by `convert`, scale 1/255 for uint8
  std::vector<double> mean, std;  ///< on the scaled values; one per channel or one for all
};
struct CropOptions {
  std::int64_t padding = 0;
};  ///< zero-pad by this much, random crop of the same size (after normalising)
struct FlipOptions {
  double probability = 0.5;
};  ///< horizontal
struct CutoutOptions {
  std::int64_t size = 8;
  double probability = 1.0;
};  ///< square set to zero (after normalising), DeVries and Taylor 2017

struct TransformOptions {
  std::optional<NormaliseOptions> normalise;
  std::optional<CropOptions> random_crop;  ///< training only, as the two below
  std::optional<FlipOptions> horizontal_flip;
  std::optional<CutoutOptions> cutout;
};

struct ShuffleOptions {
  enum class Kind : std::uint8_t { none, full, block } kind = Kind::full;
  std::int64_t block = 0;    ///< block: samples per block
  std::int64_t window = 16;  ///< block: blocks mixed with each other
};

struct DataOptions {
  SourceOptions train, test;
  SyntheticOptions synthetic;
  std::int64_t batch = 0;       ///< global batch
  std::int64_t test_batch = 0;  ///< 0: as batch
  ShuffleOptions shuffle;
  TransformOptions transforms;
  int prefetch = 2;          ///< batches held ready
  bool check_finite = true;  ///< NaN or Inf in float inputs is an error (exit code 3)
};

}  // namespace muster::dataset
