#include "dataset/synthetic.hpp"

#include <muster/base/rng.hpp>

namespace muster::dataset {
namespace {

class Synthetic : public Dataset {
 public:
  Synthetic(const SyntheticOptions& options, std::int64_t samples, std::uint64_t seed, std::uint32_t split)
      : options_(options),
        samples_(samples),
        seed_(seed),
        split_(split),
        elements_(options.shape.elements()),
        means_(static_cast<std::size_t>(options.classes * elements_)),
        words_(static_cast<std::size_t>(elements_)) {
    for (std::int64_t c = 0; c < options.classes; ++c) {
      const RandomStream stream(seed, Purpose::synthetic, static_cast<std::uint64_t>(c), 0);
      for (std::int64_t i = 0; i < elements_; ++i)
        means_[static_cast<std::size_t>(c * elements_ + i)] = stream.uniform(static_cast<std::uint64_t>(i)) - 0.5f;
    }
  }
  std::int64_t size() const override { return samples_; }
  const Shape& input_shape() const override { return options_.shape; }
  DType input_dtype() const override { return DType::f32; }
  const Shape& target_shape() const override { return scalar_; }
  bool has_class_labels() const override { return true; }
  Statistics statistics() const override { return {{0.0}, {1.0}}; }
  std::string describe() const override {
    return fmt::format("synthetic float32 {}, {} classes", options_.shape.batched(samples_).text(), options_.classes);
  }

  void read(std::span<const std::int64_t> indices, void* inputs, void* targets) override {
    for (std::size_t n = 0; n < indices.size(); ++n) {
      const RandomStream stream(seed_, Purpose::synthetic, static_cast<std::uint64_t>(indices[n]), split_);
      const auto label = static_cast<std::int32_t>(stream.below(0, static_cast<std::uint32_t>(options_.classes)));
      if (targets) static_cast<std::int32_t*>(targets)[n] = label;
      if (!inputs) continue;
      auto* out = static_cast<float*>(inputs) + static_cast<std::int64_t>(n) * elements_;
      const float* mean = means_.data() + label * elements_;
      stream.fill(1, words_);
      for (std::size_t i = 0; i < words_.size(); ++i) out[i] = mean[i] + RandomStream::unit(words_[i]) - 0.5f;
    }
  }

 private:
  SyntheticOptions options_;
  std::int64_t samples_;
  std::uint64_t seed_;
  std::uint32_t split_;
  std::int64_t elements_;
  std::vector<float> means_;
  std::vector<std::uint32_t> words_;  // of the sample being made
  Shape scalar_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const SyntheticOptions& options, std::int64_t samples, std::uint64_t seed,
                                        std::uint32_t split) {
  return std::make_unique<Synthetic>(options, samples, seed, split);
}

}  // namespace muster::dataset
