// Losses on every backend: values by hand, gradients against finite differences, logits far out, label smoothing, the
// division by the global batch, and predictions in the layouts of images.
#include "op_harness.hpp"

#include "device/cpu/format.hpp"

namespace muster::device::test {
namespace {

using Kind = LossSpec::Kind;

struct LossRun {
  Values row_loss, grad;
};

/// targets: labels (softmax) or values. global_rows: of the context.
LossRun run_loss(Backend& backend, const LossSpec& spec, const TensorDesc& desc, const Values& predictions,
                 const Values& targets, std::int64_t global_rows, bool wants_grad = true) {
  const auto loss = backend.make_loss(spec, desc, 1);
  Guarded z(desc.bytes(), 0), grad(desc.bytes(), 0), rows(static_cast<std::size_t>(desc.shape[0]) * sizeof(float), 0);
  backend.from_plain(desc, predictions.data(), z.data());
  std::vector<std::int32_t> labels;
  for (float t : targets) labels.push_back(static_cast<std::int32_t>(t));
  const bool is_labels = spec.kind == Kind::softmax_cross_entropy;
  loss->run(z.data(), is_labels ? static_cast<const void*>(labels.data()) : targets.data(),
            static_cast<float*>(rows.data()), wants_grad ? grad.data() : nullptr, {0, 0, 0, global_rows});
  EXPECT_TRUE(grad.is_intact() && rows.is_intact() && z.is_intact()) << "wrote beyond a buffer";
  LossRun result{Values(static_cast<std::size_t>(desc.shape[0])), Values(predictions.size())};
  std::memcpy(result.row_loss.data(), rows.data(), result.row_loss.size() * sizeof(float));
  if (wants_grad) backend.to_plain(desc, grad.data(), result.grad.data());
  return result;
}

TensorDesc plain(Shape shape) { return {std::move(shape), DType::f32, nullptr}; }

const float log2f_ = 0.69314718f;

TEST(Loss, SoftmaxCrossEntropyByHand) {
  on_every_backend([](Backend& backend) {
    // Row 0: equal logits: log 4, p = 1/4. Row 1: logits log(1,2,3,4): p = 0.1 0.2 0.3 0.4, label 3: -log 0.4.
    const Values z{5, 5, 5, 5, 0, log2f_, 1.0986123f, 2 * log2f_};
    const LossRun run = run_loss(backend, {}, plain({2, 4}), z, {1, 3}, 10);
    expect_near(run.row_loss, {2 * log2f_, 0.91629073f}, 1e-6, "loss");
    expect_near(run.grad, {0.025f, -0.075f, 0.025f, 0.025f, 0.01f, 0.02f, 0.03f, -0.06f}, 1e-7, "gradient");
    // Smoothing 0.2: targets 0.05 and 0.85; row 1: -(0.05 (log 0.1 + log 0.2 + log 0.3) + 0.85 log 0.4)
    const LossRun smooth = run_loss(backend, {Kind::softmax_cross_entropy, 0.2f}, plain({2, 4}), z, {1, 3}, 1);
    expect_near(smooth.row_loss, {2 * log2f_, 1.03464690f}, 1e-5, "smoothed loss");
    expect_near(smooth.grad, {0.2f, -0.6f, 0.2f, 0.2f, 0.05f, 0.15f, 0.25f, -0.45f}, 1e-6, "smoothed gradient");
  });
}

TEST(Loss, SoftmaxCrossEntropyPerPosition) {
  on_every_backend([](Backend& backend) {
    // One sample of two positions and one more: log 2 and log 4 (p = 3/4, 1/4; label 1): the mean 1.5 log 2. The second
    // sample: log 4 and log 2. Gradients p - onehot, divided by 2 positions and 5 samples.
    const float log3 = 1.0986123f;
    const LossRun run = run_loss(backend, {}, plain({2, 2, 2}), {7, 7, log3, 0, log3, 0, 1, 1}, {0, 1, 1, 1}, 5);
    expect_near(run.row_loss, {1.5f * log2f_, 1.5f * log2f_}, 1e-6, "loss");
    expect_near(run.grad, {-0.05f, 0.05f, 0.075f, -0.075f, 0.075f, -0.075f, 0.05f, -0.05f}, 1e-7, "gradient");
  });
}

TEST(Loss, BinaryCrossEntropyAndSquaredErrorByHand) {
  on_every_backend([](Backend& backend) {
    // z = 0: log 2 whatever the target; z = log 3: s = 3/4, target 1: log(4/3); target 0: log 4
    const LossRun binary = run_loss(backend, {Kind::binary_cross_entropy, 0}, plain({2, 2}),
                                    {0, 1.0986123f, 0, 1.0986123f}, {0.25f, 1, 1, 0}, 5);
    expect_near(binary.row_loss, {0.5f * (log2f_ + 0.28768207f), 0.5f * (log2f_ + 2 * log2f_)}, 1e-6, "loss");
    expect_near(binary.grad, {0.025f, -0.025f, -0.05f, 0.075f}, 1e-7, "gradient");
    const LossRun squared =
        run_loss(backend, {Kind::mean_squared_error, 0}, plain({2, 2}), {1, 2, 3, 4}, {0, 4, 3, 1}, 4);
    expect_near(squared.row_loss, {2.5f, 4.5f}, 1e-6, "loss");
    expect_near(squared.grad, {0.25f, -0.5f, 0, 0.75f}, 1e-7, "gradient");
  });
}

TEST(Loss, FarLogitsStayFinite) {
  on_every_backend([](Backend& backend) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const LossRun far = run_loss(backend, {Kind::softmax_cross_entropy, smoothing}, plain({2, 3}),
                                   {1e4f, -1e4f, 0, -1e4f, 1e4f, 1e4f}, {1, 1}, 1);
      // without smoothing: 2e4 and log 2; with: 0.9333 * 2e4 + 0.0333 * 1e4, and log 2 + 0.0333 * 2e4
      expect_near(far.row_loss, smoothing == 0 ? Values{2e4f, log2f_} : Values{19000.0f, 667.35981f}, 0.02, "loss");
      for (float g : far.grad) EXPECT_TRUE(std::isfinite(g));
      EXPECT_NEAR(far.grad[0] + far.grad[1] + far.grad[2], 0.0f, 1e-6);
    }
    const LossRun binary =
        run_loss(backend, {Kind::binary_cross_entropy, 0}, plain({2, 2}), {1e4f, -1e4f, 1e4f, -1e4f}, {1, 0, 0, 1}, 1);
    expect_near(binary.row_loss, {0, 1e4f}, 1e-3, "loss");
    expect_near(binary.grad, {0, 0, 0.5f, -0.5f}, 1e-6, "gradient");
  });
}

TEST(Loss, GradientsAgainstFiniteDifferences) {
  on_every_backend([](Backend& backend) {
    for (const LossSpec spec : {LossSpec{Kind::softmax_cross_entropy, 0}, LossSpec{Kind::softmax_cross_entropy, 0.3f},
                                LossSpec{Kind::binary_cross_entropy, 0}, LossSpec{Kind::mean_squared_error, 0}}) {
      const std::int64_t rows = 3, k = 5;
      const Values z = random_values(rows * k, 60);
      Values targets = random_values(rows * k, 61);
      for (float& t : targets) t = std::min(std::abs(t) / 3, 1.0f);
      if (spec.kind == Kind::softmax_cross_entropy) targets = {4, 0, 2};
      const Values grad = run_loss(backend, spec, plain({rows, k}), z, targets, 6).grad;
      for (std::size_t e = 0; e < z.size(); ++e) {
        const auto loss_at = [&](float value) {
          Values moved = z;
          moved[e] = value;
          double sum = 0;
          for (float v : run_loss(backend, spec, plain({rows, k}), moved, targets, 6, false).row_loss)
            sum += static_cast<double>(v);
          return sum / 6;
        };
        const double h = 0.0078125;
        const double slope = (loss_at(z[e] + 0.0078125f) - loss_at(z[e] - 0.0078125f)) / (2 * h);
        EXPECT_NEAR(grad[e], slope, 3e-5) << static_cast<int>(spec.kind) << " element " << e;
      }
    }
  });
}

TEST(Loss, OneClassAndWithoutRows) {
  on_every_backend([](Backend& backend) {
    const LossRun one = run_loss(backend, {}, plain({1, 1}), {3}, {0}, 1);
    expect_near(one.row_loss, {0}, 1e-7, "loss");
    expect_near(one.grad, {0}, 1e-7, "gradient");
    const LossRun none = run_loss(backend, {}, plain({0, 3}), {}, {}, 8);
    EXPECT_TRUE(none.row_loss.empty());
  });
}

TEST(Loss, PredictionsInBlocks) {
  const Shape shape{2, 5, 3, 2};
  const Values z = random_values(60, 70), targets = random_values(60, 71);
  const LossSpec spec{Kind::mean_squared_error, 0};
  const LossRun expected = run_loss(*backend_named("ref"), spec, plain(shape), z, targets, 2);
  for (auto format : {cpu::Format::nhwc, cpu::Format::nChw8c, cpu::Format::nChw16c}) {
    const LossRun found = run_loss(*backend_named("cpu"), spec, cpu::tensor_in(shape, format), z, targets, 2);
    expect_near(found.row_loss, expected.row_loss, 1e-5, "loss");
    expect_near(found.grad, expected.grad, 1e-6, "gradient");
  }
}

}  // namespace
}  // namespace muster::device::test
