// Transforms by hand values, and their independence of everything but (seed, epoch, index).
#include "unit/dataset/fake_dataset.hpp"

#include <gtest/gtest.h>

#include <muster/dataset/batch_queue.hpp>

#include <map>

namespace muster::dataset::test {
namespace {

const std::vector<float> image{1, 2, 3, 4, 5, 6, 7, 8, 9};  // 3 x 3

std::vector<float> apply(const TransformOptions& options, const Dataset& data, std::int64_t epoch, std::int64_t index,
                         bool is_training = true, std::vector<float> stored = image) {
  const Transform transform(options, data, 12, is_training);
  std::vector<float> out(stored.size(), -1);
  transform.apply(stored.data(), epoch, index, out.data());
  return out;
}

/// What a shifted window over the zero-padded image shows.
std::vector<float> shifted(int down, int right) {
  std::vector<float> out;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const int row = i + down, column = j + right;
      const bool is_inside = row >= 0 && row < 3 && column >= 0 && column < 3;
      out.push_back(is_inside ? image[static_cast<std::size_t>(3 * row + column)] : 0);
    }
  return out;
}

TEST(Transform, NormalisesPerChannel) {
  const FakeDataset data(10, Shape{2, 1, 2});
  TransformOptions options;
  options.normalise = NormaliseOptions{false, {1, 2}, {2, 4}};
  EXPECT_EQ(apply(options, data, 0, 0, true, {1, 3, 2, 6}), (std::vector<float>{0, 1, 0, 1}));
}

TEST(Transform, AutoTakesTheStoredStatisticsOrSaysHowToGetThem) {
  FakeDataset data(10, Shape{1, 1, 2});
  TransformOptions options;
  options.normalise = NormaliseOptions{};
  try {
    apply(options, data, 0, 0, true, {1, 3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("muster convert"), std::string::npos);
  }
  data.statistics_ = {{1.0}, {0.5}};
  EXPECT_EQ(apply(options, data, 0, 0, true, {1, 3}), (std::vector<float>{0, 4}));
}

TEST(Transform, CropShowsEveryShiftOfThePaddedImageAndNothingElse) {
  const FakeDataset data(10, Shape{1, 3, 3});
  TransformOptions options;
  options.random_crop = CropOptions{1};
  std::map<std::vector<float>, int> seen;
  for (std::int64_t index = 0; index < 900; ++index) ++seen[apply(options, data, 0, index)];
  EXPECT_EQ(seen.size(), 9u);
  for (int down = -1; down <= 1; ++down)
    for (int right = -1; right <= 1; ++right) EXPECT_GT(seen[shifted(down, right)], 60) << down << " " << right;
  options.random_crop = CropOptions{5};  // may push the image out altogether
  for (std::int64_t index = 0; index < 200; ++index)
    for (float v : apply(options, data, 0, index)) EXPECT_TRUE(v >= 0 && v <= 9);
}

TEST(Transform, FlipMirrorsRowsWithItsProbability) {
  const FakeDataset data(10, Shape{1, 3, 3});
  TransformOptions options;
  options.horizontal_flip = FlipOptions{0.25};
  int flipped = 0;
  for (std::int64_t index = 0; index < 2000; ++index) {
    const auto out = apply(options, data, 3, index);
    if (out == image) continue;
    EXPECT_EQ(out, (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7}));
    ++flipped;
  }
  EXPECT_NEAR(flipped, 500, 80);
}

TEST(Transform, CutoutBlanksASquareThatMayHangOver) {
  const FakeDataset data(10, Shape{1, 3, 3});
  TransformOptions options;
  options.cutout = CutoutOptions{2, 1.0};
  std::map<int, int> blanked;
  for (std::int64_t index = 0; index < 900; ++index) {
    int zeros = 0;
    for (float v : apply(options, data, 0, index)) zeros += v == 0;
    ++blanked[zeros];
  }
  // Centre (r, c) uniform over 3 x 3, square from (r - 1, c - 1), two wide: 1, 2 or 4 pixels inside in 1, 4 and 4 of 9
  // cases.
  ASSERT_EQ(blanked.size(), 3u);
  EXPECT_NEAR(blanked[1], 100, 45);
  EXPECT_NEAR(blanked[2], 400, 90);
  EXPECT_NEAR(blanked[4], 400, 90);
}

TEST(Transform, OnlyTrainingAugmentsAndEpochsDiffer) {
  const FakeDataset data(10, Shape{1, 3, 3});
  TransformOptions options;
  options.random_crop = CropOptions{1};
  options.horizontal_flip = FlipOptions{0.5};
  int different = 0;
  for (std::int64_t index = 0; index < 100; ++index) {
    EXPECT_EQ(apply(options, data, 0, index, false), image);
    EXPECT_EQ(apply(options, data, 1, index), apply(options, data, 1, index));
    different += apply(options, data, 1, index) != apply(options, data, 2, index);
  }
  EXPECT_GT(different, 60);
}

TEST(Transform, ImagesAreNeededForImageTransforms) {
  const FakeDataset data(10, Shape{4});
  TransformOptions options;
  options.random_crop = CropOptions{1};
  EXPECT_THROW(Transform(options, data, 1, true), Error);
}

}  // namespace
}  // namespace muster::dataset::test
