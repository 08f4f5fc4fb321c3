// The textbook's smallest network, by hand: three inputs, three hidden sigmoid nodes, three outputs, softmax
// cross-entropy, gradient descent. Every number below is worked out in the comments and checked on every backend
// through the same Step that trains everything else.
//
//   input       raw bytes 51 102 204; normalised with scale 1/255, mean 0.4, std 0.2:  x = [-1, 0, 2]       label 2
//   W1 = [ 0.5 -0.5 0.25 ]   b1 = [0 0 0.5]    z = W1 x + b1 = [ -0.5 + 0 + 0.5, 0 + 0 + 0, 1 + 0 - 1 + 0.5 ] = [0, 0,
//   0.5]
//        [ 0    1   0    ]                     h = sigmoid(z) = [0.5, 0.5, 0.6224593312]
//        [-1    0.5 -0.5 ]
//   W2 = [ 1 0 0 ]  b2 = 0                     logits = h = [0.5, 0.5, 0.6224593312]
//        [ 0 1 0 ]                             exp = [1.6487212707, 1.6487212707, 1.8635053879], sum = 5.1609479293
//        [ 0 0 1 ]                             p = [0.3194609388, 0.3194609388, 0.3610781224]
//   loss = -ln p[2] = 1.0186609
//   dlogits = p - [0 0 1] = [0.3194609388, 0.3194609388, -0.6389218776]
//   dW2 = dlogits h^T, db2 = dlogits;  dh = W2^T dlogits = dlogits
//   dz = dh * h (1 - h) = [0.3194609388 * 0.25, 0.3194609388 * 0.25, -0.6389218776 * 0.2350037122]
//      = [0.0798652347, 0.0798652347, -0.1501490131]
//   dW1 = dz x^T, db1 = dz;   w = w - 0.5 dw
#include <gtest/gtest.h>

#include <muster/comm/session.hpp>
#include <muster/dataset/batch_queue.hpp>
#include <muster/train/assemble.hpp>

#include <cmath>

namespace muster::train {
namespace {

/// One sample of three bytes.
class ThreeBytes : public dataset::Dataset {
 public:
  std::int64_t size() const override { return 1; }
  const Shape& input_shape() const override { return shape_; }
  DType input_dtype() const override { return DType::u8; }
  const Shape& target_shape() const override { return scalar_; }
  bool has_class_labels() const override { return true; }
  dataset::Statistics statistics() const override { return {{0.4}, {0.2}}; }
  std::string describe() const override { return "three bytes"; }
  void read(std::span<const std::int64_t> indices, void* inputs, void* targets) override {
    const std::uint8_t bytes[] = {51, 102, 204};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (inputs) std::copy_n(bytes, 3, static_cast<std::uint8_t*>(inputs) + 3 * i);
      if (targets) static_cast<std::int32_t*>(targets)[i] = 2;
    }
  }

 private:
  Shape shape_{3}, scalar_;
};

Config two_layers(const std::string& device) {
  Config config;
  config.run.reproducible = "bitwise";
  config.device.kind = device;
  config.data.batch = 1;
  config.model.input = {3};
  const auto dense = [](const char* name) {
    return model::LayerSpec{
        name, "", model::DenseLayer{{3, true, device::Activation::none}, {"zeros", 0}, {"zeros", 0}}, {}, {}};
  };
  model::LayerSpec sigmoid{"sigmoid", "", model::ActivationLayer{{device::Activation::sigmoid, 0, false}}, {}, {}};
  config.model.layers = {dense("hidden"), sigmoid, dense("output")};
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 0.5;
  return config;
}

void expect_values(const std::vector<float>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << what << " element " << i;
}

TEST(TwoLayers, OneStepByHand) {
  const std::vector<double> w1{0.5, -0.5, 0.25, 0, 1, 0, -1, 0.5, -0.5}, b1{0, 0, 0.5}, w2{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const std::vector<double> x{-1, 0, 2}, h{0.5, 0.5, 0.6224593312};
  const std::vector<double> dlogits{0.3194609388, 0.3194609388, -0.6389218776},
      dz{0.0798652347, 0.0798652347, -0.1501490131};

  for (const std::string device : {"ref", "cpu"}) {
    const auto session = comm::start_session({});
    const Config config = two_layers(device);
    Replica replica(config, session->world(), 1, 1);
    const auto set = [&](int param, const std::vector<double>& values) {
      const std::vector<float> plain(values.begin(), values.end());
      replica.store->from_plain(param, plain, replica.store->weights());
    };
    set(0, w1), set(1, b1), set(2, w2), set(3, {0, 0, 0});

    dataset::QueueOptions options;
    options.batch = options.last_sample = 1;
    options.transforms.normalise = dataset::NormaliseOptions{};
    options.rows_of = [](std::int64_t rows) { return Range{0, rows}; };
    dataset::BatchQueue queue(std::make_unique<ThreeBytes>(), options);
    const dataset::Batch* batch = queue.next();
    ASSERT_NE(batch, nullptr);
    expect_values({batch->inputs, batch->inputs + 3}, x, "preprocessed input");

    const StepResult result = replica.step->run(*batch, 0, 0.5, false);
    EXPECT_TRUE(result.is_finite);
    EXPECT_EQ(result.sums.rows, 1);
    EXPECT_EQ(result.sums.correct, 1);
    EXPECT_NEAR(static_cast<double>(result.sums.loss_units) * model::loss_unit, 1.0186609, 2e-6) << device;

    std::vector<double> new_w1 = w1, new_b1 = b1, new_w2 = w2, new_b2(3, 0.0);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        new_w1[3 * i + j] -= 0.5 * dz[i] * x[j];
        new_w2[3 * i + j] -= 0.5 * dlogits[i] * h[j];
      }
      new_b1[i] -= 0.5 * dz[i];
      new_b2[i] -= 0.5 * dlogits[i];
    }
    const auto weights = replica.store->weights();
    expect_values(replica.store->to_plain(0, weights), new_w1, device + " hidden.weight");
    expect_values(replica.store->to_plain(1, weights), new_b1, device + " hidden.bias");
    expect_values(replica.store->to_plain(2, weights), new_w2, device + " output.weight");
    expect_values(replica.store->to_plain(3, weights), new_b2, device + " output.bias");
    EXPECT_EQ(queue.next(), nullptr);
    replica.close();
  }
}

}  // namespace
}  // namespace muster::train
