// Every op and loss of the `cuda` backend against `ref`, forward and backward, under every schedule of the emulation.
#include "cuda/backend/emulated.hpp"

#include <muster/base/error.hpp>

#include <numeric>

namespace muster::device::test {
namespace {

struct Case {
  std::string name;
  OpSpec spec;
  std::vector<Shape> inputs;  ///< with n
  bool is_training = true;
  std::int64_t tokens = 0;  ///< > 0: the input holds token ids below this
  std::int64_t position = 0;
};

struct Outcome {
  Values output;
  std::vector<Values> input_grads, param_grads, state;
  std::vector<double> forward_statistics, backward_statistics, deferred;
};

/// Everything the op is to write starts as NaN.
Outcome run(Backend& backend, const Case& c) {
  OpRequest request;
  request.spec = c.spec;
  request.is_training = c.is_training;
  for (const Shape& shape : c.inputs) request.inputs.push_back({shape, DType::f32, nullptr});
  const auto op = backend.make(request);
  const OpTraits& traits = op->traits();
  const RunContext context{7, 3, 12, 40, c.position};
  std::vector<std::unique_ptr<Floats>> inputs, params, states, input_grads, param_grads;
  const auto floats = [&](auto& list, const auto& values) {
    list.push_back(std::make_unique<Floats>(backend, values));
    return list.back()->data();
  };
  OpBuffers buffers;
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    const std::int64_t count = c.inputs[k].elements();
    Values values = random_values(count, static_cast<std::uint32_t>(k));
    for (std::size_t i = 0; c.tokens > 0 && i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<std::int64_t>(i * i + 1) % c.tokens);
    buffers.inputs.push_back(floats(inputs, values));
    buffers.input_grads.push_back(floats(input_grads, count));
  }
  for (std::size_t k = 0; k < op->params().size(); ++k) {
    const std::int64_t count = op->params()[k].shape.elements();
    buffers.params.push_back(floats(params, random_values(count, 20 + static_cast<std::uint32_t>(k))));
    buffers.param_grads.push_back(floats(param_grads, count));
  }
  std::vector<Shape> samples;
  for (const Shape& shape : c.inputs)
    samples.push_back(Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())));
  for (const ParamShape& state : state_shapes(c.spec, samples))
    buffers.state.push_back(floats(states, Values(static_cast<std::size_t>(state.shape.elements()), 1.5f)));
  std::vector<double> forward(static_cast<std::size_t>(traits.forward_statistics)),
      deferred(static_cast<std::size_t>(traits.deferred_statistics));
  std::vector<double> backward(static_cast<std::size_t>(traits.backward_statistics));
  op->bind_statistics(forward, backward, deferred);
  // Other ranks hold as much again and a little more.
  const auto sum_over_ranks = [&](std::vector<double>& statistics, std::vector<double>& shares) {
    backend.synchronize();
    shares = statistics;
    for (double& value : statistics) value = 2.1 * value + 0.5;
  };
  const std::int64_t outputs = op->output().shape.elements();
  Floats output(backend, outputs), output_grad(backend, random_values(outputs, 40));
  const auto saved = backend.allocate(std::max<std::size_t>(traits.saved_bytes, 64));
  const auto scratch = backend.allocate(std::max<std::size_t>(traits.scratch_bytes, 64));
  buffers.output = output.data();
  buffers.output_grad = output_grad.data();
  buffers.saved = saved->data();
  buffers.scratch = scratch->data();
  op->bind(buffers);
  Outcome outcome;
  op->forward(0, context);
  sum_over_ranks(forward, outcome.forward_statistics);
  if (traits.forward_phases > 1) op->forward(1, context);
  outcome.output = output.read();
  if (!c.is_training) return outcome;
  op->backward(0, context);
  sum_over_ranks(backward, outcome.backward_statistics);
  if (traits.backward_phases > 1) op->backward(1, context);
  outcome.deferred = deferred;
  op->end_step(context);
  for (auto& state : states) outcome.state.push_back(state->read());
  for (auto& grad : input_grads) outcome.input_grads.push_back(grad->read());
  for (auto& grad : param_grads) outcome.param_grads.push_back(grad->read());
  if (traits.passes_grad_through) outcome.input_grads.clear();
  return outcome;
}

void add_images(std::vector<Case>& all) {
  Conv2dSpec conv;
  conv.filters = 5;
  conv.kernel = {3, 2};
  all.push_back({"conv2d", conv, {{2, 3, 6, 5}}});
  conv.padding = {1, 0, 2, 1};
  conv.stride = {2, 3};
  conv.activation = Activation::relu;
  all.push_back({"conv2d with strides and relu", conv, {{3, 2, 7, 9}}});
  conv.dilation = {2, 2};
  conv.groups = 2;
  conv.filters = 6;
  conv.has_bias = false;
  all.push_back({"conv2d with dilation and groups", conv, {{1, 4, 9, 8}}});
  all.push_back({"conv2d, evaluation", conv, {{2, 4, 9, 8}}, false});
  BatchNormSpec norm;
  all.push_back({"batch_norm", norm, {{4, 3, 5, 2}}});
  all.push_back({"batch_norm of features", norm, {{5, 7}}});
  all.push_back({"batch_norm, evaluation", norm, {{4, 3, 5, 2}}, false});
  norm.has_residual = true;
  norm.activation = Activation::relu;
  all.push_back({"batch_norm + residual, relu", norm, {{4, 3, 5, 2}, {4, 3, 5, 2}}});
  norm.group = 2;
  all.push_back({"batch_norm of groups + residual, relu", norm, {{5, 3, 5, 2}, {5, 3, 5, 2}}});
  all.push_back({"concat", ConcatSpec{}, {{3, 2, 4}, {3, 1, 4}, {3, 5, 4}}});
  for (const auto kind : {Pool2dSpec::Kind::max, Pool2dSpec::Kind::average}) {
    const std::string name = kind == Pool2dSpec::Kind::max ? "max pool" : "average pool";
    all.push_back({name, Pool2dSpec{kind, {2, 2}, {2, 2}, {0, 0, 0, 0}, false}, {{2, 3, 6, 8}}});
    all.push_back({name + ", overlapping", Pool2dSpec{kind, {3, 2}, {2, 1}, {1, 0, 1, 1}, false}, {{2, 3, 7, 5}}});
    all.push_back({name + ", gaps", Pool2dSpec{kind, {1, 2}, {3, 4}, {0, 0, 0, 0}, false}, {{1, 2, 8, 9}}});
    all.push_back({name + ", global", Pool2dSpec{kind, {2, 2}, {2, 2}, {0, 0, 0, 0}, true}, {{3, 4, 5, 3}}});
  }
}

void add_attention(std::vector<Case>& all) {
  all.push_back({"attention", AttentionSpec{1, 1, 4, false}, {{2, 5, 12}}});
  all.push_back({"causal attention", AttentionSpec{3, 3, 2, true}, {{2, 7, 18}}});
  all.push_back({"attention of shared keys, dropout", AttentionSpec{4, 2, 3, true, 0.3f, 1}, {{2, 6, 24}}});
  all.push_back({"attention of many keys", AttentionSpec{1, 1, 2, false}, {{1, 300, 6}}});
  all.push_back({"attention, evaluation", AttentionSpec{2, 1, 4, true, 0.3f, 1}, {{2, 5, 16}}, false});
}

void add_sequences(std::vector<Case>& all) {
  Case embedding{"embedding", EmbeddingSpec{11, 5}, {{4, 7}}};
  embedding.tokens = 11;
  all.push_back(embedding);
  embedding.name = "embedding of few ids";
  embedding.spec = EmbeddingSpec{300, 40};
  embedding.inputs = {{2, 300}};
  embedding.tokens = 3;
  all.push_back(embedding);
  all.push_back({"positional embedding", PositionalEmbeddingSpec{9}, {{3, 7, 5}}});
  Case later{"positional embedding from 2", PositionalEmbeddingSpec{9}, {{3, 7, 5}}, false};
  later.position = 2;
  all.push_back(later);
  all.push_back({"rotary", RotarySpec{2, 6, 100.0f}, {{2, 5, 12}}});
  Case part{"rotary of a part, from 3", RotarySpec{2, 4, 10000.0f}, {{2, 5, 19}}};
  part.position = 3;
  all.push_back(part);
  all.push_back({"rms_norm", RmsNormSpec{1e-5f}, {{3, 5, 33}}});
  all.push_back({"rms_norm of one row", RmsNormSpec{1e-3f}, {{1, 600}}});
  all.push_back({"swiglu", SwigluSpec{}, {{3, 5, 14}}});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const DenseSpec relu{5, true, Activation::relu, false};
  all.push_back({"dense", DenseSpec{7, true, Activation::none, false}, {{5, 3}}});
  all.push_back({"dense of images, relu", relu, {{3, 2, 4, 3}}});
  all.push_back({"dense without bias", DenseSpec{1, false, Activation::none, false}, {{1, 1}}});
  all.push_back({"dense without bias, relu", DenseSpec{9, false, Activation::relu, false}, {{4, 6}}});
  all.push_back({"dense per position", DenseSpec{6, true, Activation::none, true}, {{2, 5, 4}}});
  all.push_back({"dense of many", DenseSpec{70, true, Activation::relu, false}, {{33, 90}}});
  all.push_back({"dense, evaluation", relu, {{3, 8}}, false});
  for (const Activation kind : {Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::silu,
                                Activation::tanh, Activation::sigmoid, Activation::none})
    all.push_back(
        {fmt::format("activation {}", static_cast<int>(kind)), ActivationSpec{kind, 0.2f, false}, {{3, 171}}});
  all.push_back({"gelu by tanh", ActivationSpec{Activation::gelu, 0, true}, {{2, 300}}});
  all.push_back({"dropout", DropoutSpec{0.3f, 2}, {{5, 3, 7, 11}}});
  all.push_back({"dropout, evaluation", DropoutSpec{0.3f, 2}, {{5, 3}}, false});
  all.push_back({"add", AddSpec{}, {{2, 9}, {2, 9}}});
  all.push_back({"add of three, relu", AddSpec{Activation::relu}, {{2, 9}, {2, 9}, {2, 9}}});
  all.push_back({"reshape", ReshapeSpec{{6, 2}}, {{3, 4, 3}}});
  all.push_back({"layer_norm", LayerNormSpec{1e-5f, false}, {{3, 5, 4}}});
  all.push_back({"layer_norm of one row", LayerNormSpec{1e-3f, false}, {{1, 700}}});
  all.push_back({"layer_norm per position", LayerNormSpec{1e-5f, true}, {{3, 5, 33}}});
  add_images(all);
  add_sequences(all);
  add_attention(all);
  return all;
}

void expect_near_sums(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << what;
}

void expect_as_ref(const Case& c, const std::string& where) {
  const auto cuda = backend_named("cuda"), ref = backend_named("ref");
  const std::string what = c.name + ", " + where;
  const Outcome found = run(*cuda, c), expected = run(*ref, c);
  expect_near(found.output, expected.output, 2e-5f, what + ": output");
  ASSERT_EQ(found.state.size(), expected.state.size()) << what;
  for (std::size_t k = 0; k < found.state.size(); ++k)
    expect_near(found.state[k], expected.state[k], 2e-5f, what + ": running values");
  expect_near_sums(found.forward_statistics, expected.forward_statistics, what + ": statistics");
  expect_near_sums(found.backward_statistics, expected.backward_statistics, what + ": backward statistics");
  expect_near_sums(found.deferred, expected.deferred, what + ": deferred statistics");
  ASSERT_EQ(found.input_grads.size(), expected.input_grads.size()) << what;
  for (std::size_t k = 0; k < found.input_grads.size(); ++k)
    expect_near(found.input_grads[k], expected.input_grads[k], 3e-5f, what + ": input gradient");
  ASSERT_EQ(found.param_grads.size(), expected.param_grads.size()) << what;
  for (std::size_t k = 0; k < found.param_grads.size(); ++k)
    expect_near(found.param_grads[k], expected.param_grads[k], 3e-5f, what + ": parameter gradient");
}

TEST(CudaOps, GiveTheValuesOfRef) {
  for (const std::string schedule : {"eager", "lazy", "ahead"}) {
    const Setting setting("EMULATION_SCHEDULE", schedule);
    for (const Case& c : cases()) expect_as_ref(c, schedule);
  }
}

TEST(CudaOps, DoWithoutEpilogues) {
  const Setting setting("EMULATION_NO_EPILOGUES", "1");
  for (const Case& c : cases())
    if (c.name.starts_with("dense")) expect_as_ref(c, "no epilogues");
}

TEST(CudaOps, DoWithoutEnginesOfCudnn) {
  for (const char* mode : {"none", "unfused"}) {
    const Setting setting("EMULATION_CUDNN", mode);
    for (const Case& c : cases())
      if (c.name.starts_with("conv2d")) expect_as_ref(c, mode);
  }
}

/// A sequence in three pieces, and a second one after it.
std::vector<Values> run_with_cache(Backend& backend) {
  OpRequest request;
  AttentionSpec spec{2, 1, 3, true};
  spec.cache = 6;
  request.spec = spec;
  request.is_training = false;
  request.inputs = {{{2, 2, 12}, DType::f32, nullptr}};
  const auto op = backend.make(request);
  const auto saved = backend.allocate(std::max<std::size_t>(op->traits().saved_bytes, 64));
  const auto scratch = backend.allocate(std::max<std::size_t>(op->traits().scratch_bytes, 64));
  Floats input(backend, 48), output(backend, 24);
  OpBuffers buffers;
  buffers.inputs = {input.data()};
  buffers.output = output.data();
  buffers.saved = saved->data();
  buffers.scratch = scratch->data();
  op->bind(buffers);
  std::vector<Values> outputs;
  for (const std::int64_t position : {0, 2, 4, 0}) {
    const Values piece = random_values(48, 60 + static_cast<std::uint32_t>(outputs.size()));
    backend.copy_in(input.data(), piece.data(), piece.size() * sizeof(float));
    RunContext context;
    context.position = position;
    op->forward(0, context);
    outputs.push_back(output.read());
  }
  return outputs;
}

TEST(CudaOps, AttentionKeepsKeysAndValues) {
  const auto found = run_with_cache(*backend_named("cuda")), expected = run_with_cache(*backend_named("ref"));
  for (std::size_t k = 0; k < expected.size(); ++k) expect_near(found[k], expected[k], 2e-5f, "piece");
}

TEST(CudaOps, RefuseOtherTypes) {
  const auto cuda = backend_named("cuda");
  OpRequest request;
  request.spec = AddSpec{};
  request.inputs = {{{1, 2}, DType::bf16, nullptr}};
  EXPECT_EQ(cuda->why_unsupported(request), "cuda works on plain float32 tensors only");
  EXPECT_THROW(cuda->make(request), Error);
}

TEST(CudaOps, ATokenOutsideTheVocabularyIsAnError) {
  const auto cuda = backend_named("cuda");
  Case c{"embedding", EmbeddingSpec{5, 3}, {{2, 4}}};
  c.tokens = 6;
  try {
    run(*cuda, c);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_STREQ(error.what(), "embedding: token id 5 is outside the vocabulary");
  }
}

struct LossOutcome {
  Values losses, grad;
};
LossOutcome run_loss(Backend& backend, const LossSpec& spec, const Shape& shape, bool wants_grad) {
  const TensorDesc desc{shape, DType::f32, nullptr};
  const auto loss = backend.make_loss(spec, desc, 1);
  const std::int64_t count = shape.elements();
  Values target_values(static_cast<std::size_t>(count));
  if (spec.kind == LossSpec::Kind::softmax_cross_entropy) {
    const std::int64_t classes = shape[shape.rank() - 1];
    target_values.resize(static_cast<std::size_t>(count / classes));
    for (std::size_t i = 0; i < target_values.size(); ++i) {
      const auto label = static_cast<std::int32_t>(static_cast<std::int64_t>(i * 5 + 1) % classes);
      std::memcpy(&target_values[i], &label, sizeof(label));
    }
  } else {
    for (std::size_t i = 0; i < target_values.size(); ++i) target_values[i] = static_cast<float>(i % 3) / 2;
  }
  Floats predictions(backend, random_values(count, 3)), targets(backend, target_values);
  Floats losses(backend, shape[0]), grad(backend, count);
  RunContext context;
  context.global_rows = 12;
  loss->run(predictions.data(), targets.data(), losses.data(), wants_grad ? grad.data() : nullptr, context);
  LossOutcome outcome{losses.read(), {}};
  if (wants_grad) outcome.grad = grad.read();
  return outcome;
}

TEST(CudaLosses, GiveTheValuesOfRef) {
  using Kind = LossSpec::Kind;
  const auto cuda = backend_named("cuda"), ref = backend_named("ref");
  for (const std::string schedule : {"eager", "lazy", "ahead"}) {
    const Setting setting("EMULATION_SCHEDULE", schedule);
    for (const LossSpec& spec :
         {LossSpec{Kind::softmax_cross_entropy, 0.0f}, LossSpec{Kind::softmax_cross_entropy, 0.1f},
          LossSpec{Kind::mean_squared_error, 0}, LossSpec{Kind::binary_cross_entropy, 0}})
      for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{3, 700}, Shape{2, 4, 11}})
        for (const bool wants_grad : {true, false}) {
          const std::string what = fmt::format("kind {} {} {}", static_cast<int>(spec.kind), shape.text(), schedule);
          const LossOutcome found = run_loss(*cuda, spec, shape, wants_grad);
          const LossOutcome expected = run_loss(*ref, spec, shape, wants_grad);
          expect_near(found.losses, expected.losses, 2e-5f, what + ": losses");
          expect_near(found.grad, expected.grad, 1e-6f, what + ": gradient");
        }
  }
}

}  // namespace
}  // namespace muster::device::test
