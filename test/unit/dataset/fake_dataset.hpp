// A dataset for tests: sample i holds the numbers 100 i, 100 i + 1, ...; label i % 3.
#pragma once

#include <muster/base/error.hpp>
#include <muster/dataset/dataset.hpp>

#include <limits>

namespace muster::dataset::test {

class FakeDataset : public Dataset {
 public:
  FakeDataset(std::int64_t size, Shape shape) : size_(size), shape_(std::move(shape)) {}
  std::int64_t size() const override { return size_; }
  const Shape& input_shape() const override { return shape_; }
  DType input_dtype() const override { return DType::f32; }
  const Shape& target_shape() const override { return scalar_; }
  bool has_class_labels() const override { return true; }
  Statistics statistics() const override { return statistics_; }
  std::string describe() const override { return "fake"; }
  void read(std::span<const std::int64_t> indices, void* inputs, void* targets) override {
    for (std::size_t n = 0; n < indices.size(); ++n) {
      if (indices[n] == fails_at) fail(ExitCode::data, "sample {} cannot be read", indices[n]);
      for (std::int64_t e = 0; inputs && e < shape_.elements(); ++e)
        static_cast<float*>(inputs)[static_cast<std::int64_t>(n) * shape_.elements() + e] =
            indices[n] == nan_at ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(100 * indices[n] + e);
      if (targets) static_cast<std::int32_t*>(targets)[n] = static_cast<std::int32_t>(indices[n] % 3);
    }
  }
  std::int64_t fails_at = -1, nan_at = -1;
  Statistics statistics_;

 private:
  std::int64_t size_;
  Shape shape_, scalar_;
};

}  // namespace muster::dataset::test
