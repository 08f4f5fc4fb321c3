// The registry's answers, and what every backend promises beside its ops: memory, copies, sums, refusals, and ops that
// may work in place doing so.
#include "op_harness.hpp"

#include <muster/base/error.hpp>

#include <functional>

namespace muster::device::test {
namespace {

std::string message_of(ExitCode code, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_holds(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

TEST(Registry, ChoosesByName) {
  EXPECT_EQ(backend_named("ref")->name(), "ref");
  EXPECT_EQ(backend_named("cpu")->name(), "cpu");
  bool has_cuda = false;
  for (const BackendEntry& entry : registered_backends()) has_cuda |= entry.name == "cuda" && entry.probe().empty();
  EXPECT_EQ(backend_named("auto")->name(), has_cuda ? "cuda" : "cpu");
  expect_holds(backend_named("cpu")->describe(), {"oneDNN"});
}

TEST(Registry, SaysWhyABackendIsMissing) {
  expect_holds(message_of(ExitCode::launch, [] { backend_named("tpu"); }),
               {"device.kind", "tpu", "not part of this build", "muster info"});
  static const bool is_registered = register_backend({"broken", [] { return std::string("its driver is too old"); },
                                                      [](const DeviceOptions&) { return std::unique_ptr<Backend>(); }});
  EXPECT_TRUE(is_registered);
  expect_holds(message_of(ExitCode::launch, [] { backend_named("broken"); }), {"broken: its driver is too old"});
}

TEST(Backends, AllocateZeroedAlignedMemory) {
  on_every_backend([](Backend& backend) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, (std::size_t{2} << 20) + 5}) {
      const auto buffer = backend.allocate(bytes);
      EXPECT_GE(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
      const auto* data = static_cast<const unsigned char*>(buffer->data());
      EXPECT_TRUE(std::all_of(data, data + bytes, [](unsigned char c) { return c == 0; })) << bytes;
    }
    expect_holds(message_of(ExitCode::device, [&] { backend.allocate(std::size_t{1} << 60); }),
                 {"memory", "data.batch"});
  });
}

TEST(Backends, AccumulateAndCopy) {
  on_every_backend([](Backend& backend) {
    for (const Shape& shape : {Shape{1}, Shape{3, 17}, Shape{70001}, Shape{0, 4}}) {
      const TensorDesc desc{shape, DType::f32, nullptr};
      const auto count = static_cast<std::size_t>(shape.elements());
      Guarded to(desc.bytes(), 0), from(desc.bytes(), 0);
      Values a(count), b(count), sum(count, -1.0f);
      for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<float>(i), b[i] = 2.0f * static_cast<float>(i) + 1;
      backend.from_plain(desc, a.data(), to.data());
      backend.from_plain(desc, b.data(), from.data());
      backend.accumulate(to.data(), from.data(), desc);
      backend.to_plain(desc, to.data(), sum.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], 3.0f * static_cast<float>(i) + 1) << i;
      EXPECT_TRUE(to.is_intact() && from.is_intact());
    }
  });
}

TEST(Backends, RefuseWhatTheyCannotServe) {
  on_every_backend([](Backend& backend) {
    const OpRequest halves{DenseSpec{3}, {{{2, 4}, DType::bf16, nullptr}}, {}, {}, true, true, 1};
    expect_holds(backend.why_unsupported(halves), {"float32"});
    expect_holds(message_of(ExitCode::usage, [&] { backend.make(halves); }), {"float32"});
    const OpRequest misfit{ReshapeSpec{{5}}, {{{2, 4}, DType::f32, nullptr}}, {}, {}, true, true, 1};
    expect_holds(message_of(ExitCode::usage, [&] { backend.make(misfit); }), {"reshape", "5 elements"});
    const OpRequest fine{DenseSpec{3}, {{{2, 4}, DType::f32, nullptr}}, {}, {}, true, true, 1};
    EXPECT_EQ(backend.why_unsupported(fine), "");
  });
}

// An op that says it may work in place gives the same bits when it does.
TEST(Backends, OpsThatMayShareBuffersMayIndeed) {
  on_every_backend([](Backend& backend) {
    int shared_outputs = 0, shared_grads = 0;
    std::vector<OpSpec> specs{DropoutSpec{0.3f, 1}, ReshapeSpec{{24}}, BatchNormSpec{},
                              LayerNormSpec{},      DenseSpec{24},     AddSpec{}};
    for (auto kind : {Activation::none, Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::silu,
                      Activation::tanh, Activation::sigmoid})
      specs.push_back(ActivationSpec{kind});
    for (const OpSpec& spec : specs) {
      SCOPED_TRACE(name_of(spec));
      const auto run = [&](Sharing sharing) {
        OpRun op(backend, spec, {{5, 24}}, true, sharing);
        op.set_input(random_values(120, 1));
        for (std::size_t i = 0; i < op.param_shapes().size(); ++i)
          op.set_param(i, random_values(op.param_shapes()[i].elements(), 5));
        op.set_output_grad(random_values(120, 2));
        const Values output = op.forward();
        if (!op.op().traits().passes_grad_through) op.backward();
        op.expect_intact();
        return std::pair{output, op.input_grad()};
      };
      const OpTraits traits = OpRun(backend, spec, {{5, 24}}).op().traits();
      const auto apart = run(Sharing::none);
      if (traits.may_write_output_over_input) {
        // the caller must know: nothing that is overwritten may be read again
        EXPECT_FALSE(traits.backward_reads_input[0]);
        EXPECT_EQ(run(Sharing::output_over_input), apart);
        ++shared_outputs;
      }
      if (traits.may_write_grad_over_grad) {
        EXPECT_EQ(run(Sharing::grad_over_grad), apart);
        ++shared_grads;
      }
    }
    EXPECT_GE(shared_outputs, 2);
    EXPECT_GE(shared_grads, 9);
  });
}

TEST(Backends, UnwantedInputGradientsAreLeftOut) {
  on_every_backend([](Backend& backend) {
    for (const OpSpec& spec : {OpSpec(DenseSpec{3}), OpSpec(LayerNormSpec{}), OpSpec(BatchNormSpec{})}) {
      OpRequest request{spec, {{{4, 6}, DType::f32, nullptr}}, {false}, {}, true, true, 1};
      const auto op = backend.make(request);
      const Values x = random_values(24, 1), dy = random_values(op->output().shape.elements(), 2);
      Guarded saved(op->traits().saved_bytes, 0), scratch(op->traits().scratch_bytes, 0),
          output(op->output().bytes(), 0);
      Guarded grad(op->output().bytes(), 0);
      backend.from_plain(op->output(), dy.data(), grad.data());
      std::vector<Values> params, param_grads, states(2, Values(6, 1.0f));
      OpBuffers bound;
      for (const TensorDesc& desc : op->params()) {
        params.push_back(Values(desc.bytes() / sizeof(float), 0.5f));
        param_grads.push_back(Values(desc.bytes() / sizeof(float), NAN));
      }
      for (std::size_t i = 0; i < params.size(); ++i) {
        bound.params.push_back(params[i].data());
        bound.param_grads.push_back(param_grads[i].data());
      }
      if (std::holds_alternative<BatchNormSpec>(spec)) bound.state = {states[0].data(), states[1].data()};
      bound.inputs = {x.data()};
      bound.input_grads = {nullptr};
      bound.output = output.data();
      bound.output_grad = grad.data();
      bound.saved = saved.data();
      bound.scratch = scratch.data();
      op->bind(bound);
      std::vector<double> forward(static_cast<std::size_t>(op->traits().forward_statistics)), backward(forward.size());
      op->bind_statistics(forward, backward, {});
      for (int phase = 0; phase < op->traits().forward_phases; ++phase) op->forward(phase, {1, 1, 0, 4});
      for (int phase = 0; phase < op->traits().backward_phases; ++phase) op->backward(phase, {1, 1, 0, 4});
      for (const Values& g : param_grads)
        for (float v : g) EXPECT_TRUE(std::isfinite(v)) << name_of(spec);
      EXPECT_TRUE(saved.is_intact() && scratch.is_intact() && output.is_intact() && grad.is_intact());
    }
  });
}

}  // namespace
}  // namespace muster::device::test
