// What must not depend on how the global batch is cut: batch norm (statistics summed between the phases as the caller
// does) and dropout masks; the running values of both scopes; and micro-batches without rows. On every backend.
#include "op_harness.hpp"

namespace muster::device::test {
namespace {

constexpr std::int64_t channels = 3, image = 4, sample = channels * image;

Values slice(const Values& all, std::int64_t first, std::int64_t rows) {
  return Values(all.begin() + first * sample, all.begin() + (first + rows) * sample);
}

void sum_over(std::vector<std::unique_ptr<OpRun>>& runs, std::vector<double> OpRun::*statistics) {
  std::vector<double> total((*runs[0].*statistics).size(), 0.0);
  for (auto& run : runs)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += (*run.*statistics)[i];
  for (auto& run : runs) std::copy(total.begin(), total.end(), (*run.*statistics).begin());
}

struct Whole {
  Values output, input_grad, residual_grad, gamma_grad, beta_grad, running_mean, running_var;
};

/// The global batch in micro-batches of these many rows, run as the trainer does.
Whole run_cut(Backend& backend, const BatchNormSpec& spec, const std::vector<std::int64_t>& rows) {
  std::int64_t all_rows = 0;
  for (std::int64_t r : rows) all_rows += r;
  Values x = random_values(all_rows * sample, 1), residual = random_values(all_rows * sample, 2);
  Values dy = random_values(all_rows * sample, 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += 0.5f * static_cast<float>(i / sample);  // micro-batches differ
  std::vector<std::unique_ptr<OpRun>> runs;
  std::int64_t first = 0;
  for (std::int64_t r : rows) {
    const Shape shape{r, channels, 2, 2};
    runs.push_back(std::make_unique<OpRun>(backend, spec, std::vector<Shape>(spec.has_residual ? 2 : 1, shape)));
    OpRun& run = *runs.back();
    run.context = {7, 3, first, all_rows};
    run.set_input(slice(x, first, r));
    if (spec.has_residual) run.set_input(slice(residual, first, r), 1);
    run.set_param(0, {1.5f, -2.0f, 0.5f});
    run.set_param(1, {0.1f, 0.2f, -0.3f});
    run.set_output_grad(slice(dy, first, r));
    run.set_state(0, {1, 2, 3});
    run.set_state(1, {4, 5, 6});
    first += r;
  }
  const OpTraits traits = runs[0]->op().traits();
  for (int phase = 0; phase < traits.forward_phases; ++phase) {
    for (auto& run : runs) run->forward_phase(phase);
    if (phase == 0) sum_over(runs, &OpRun::forward_statistics);
  }
  for (int phase = 0; phase < traits.backward_phases; ++phase) {
    for (auto& run : runs) run->backward_phase(phase);
    if (phase == 0) sum_over(runs, &OpRun::backward_statistics);
  }
  sum_over(runs, &OpRun::deferred_statistics);
  runs.back()->op().end_step(runs.back()->context);
  Whole whole;
  whole.gamma_grad = whole.beta_grad = Values(channels, 0.0f);
  for (auto& run : runs) {
    const auto append = [](Values& to, const Values& part) { to.insert(to.end(), part.begin(), part.end()); };
    append(whole.output, run->output());
    append(whole.input_grad, run->input_grad(0));
    if (spec.has_residual) append(whole.residual_grad, run->input_grad(1));
    for (std::size_t c = 0; c < channels; ++c) {
      whole.gamma_grad[c] += run->param_grad(0)[c];
      whole.beta_grad[c] += run->param_grad(1)[c];
    }
    run->expect_intact();
  }
  whole.running_mean = runs.back()->state(0);
  whole.running_var = runs.back()->state(1);
  return whole;
}

void expect_same(const Whole& a, const Whole& b) {
  expect_near(a.output, b.output, 2e-5, "output");
  expect_near(a.input_grad, b.input_grad, 2e-5, "input gradient");
  expect_near(a.residual_grad, b.residual_grad, 1e-6, "residual gradient");
  expect_near(a.gamma_grad, b.gamma_grad, 1e-4, "gamma gradient");
  expect_near(a.beta_grad, b.beta_grad, 1e-4, "beta gradient");
  expect_near(a.running_mean, b.running_mean, 1e-5, "running mean");
  expect_near(a.running_var, b.running_var, 1e-4, "running variance");
}

TEST(MicroBatches, BatchNormOfGlobalScopeDoesNotSeeTheCuts) {
  on_every_backend([](Backend& backend) {
    for (const bool has_residual : {false, true})
      for (auto activation : {Activation::none, Activation::relu}) {
        BatchNormSpec spec;
        spec.has_residual = has_residual;
        spec.activation = activation;
        const Whole whole = run_cut(backend, spec, {7});
        expect_same(run_cut(backend, spec, {3, 4}), whole);
        expect_same(run_cut(backend, spec, {1, 5, 1}), whole);
      }
  });
}

TEST(MicroBatches, BatchNormOfGroupsDoesNotSeeTheCuts) {
  on_every_backend([](Backend& backend) {
    BatchNormSpec spec;
    spec.group = 2;
    const Whole whole = run_cut(backend, spec, {7});  // groups 0-1, 2-3, 4-5 and the short one 6
    expect_same(run_cut(backend, spec, {4, 3}), whole);
    expect_same(run_cut(backend, spec, {2, 2, 3}), whole);
  });
}

TEST(MicroBatches, TheGroupsOfABatchAreIndependentBatches) {
  on_every_backend([](Backend& backend) {
    BatchNormSpec spec;
    spec.group = 4;
    const Whole grouped = run_cut(backend, spec, {7});
    spec.group = 0;
    const Whole first = run_cut(backend, spec, {4});  // draws the same first values
    expect_near(slice(grouped.output, 0, 4), first.output, 2e-5, "output");
    expect_near(slice(grouped.input_grad, 0, 4), first.input_grad, 2e-5, "input gradient");
  });
}

// Values 0 2 4 6 | 10 12: momentum 0.25, start 1 and 4.
TEST(MicroBatches, RunningValuesByHand) {
  on_every_backend([](Backend& backend) {
    BatchNormSpec spec;
    spec.momentum = 0.25f;
    const auto run = [&](std::int64_t group) {
      spec.group = group;
      OpRun op(backend, spec, {{6, 1}});
      op.set_input({0, 2, 4, 6, 10, 12});
      op.set_param(0, {1});
      op.set_param(1, {0});
      op.set_state(0, {1});
      op.set_state(1, {4});
      op.forward();
      op.op().end_step(op.context);
      return Values{op.state(0)[0], op.state(1)[0]};
    };
    // mean 34/6; sum of squares 300; unbiased variance (300 - 34^2/6) / 5 = 21.4666...
    expect_near(run(0), {0.75f + 0.25f * 34.0f / 6.0f, 3.0f + 0.25f * 21.466667f}, 1e-5, "global");
    // groups of 4: means 3 and 11, unbiased variances 20/3 and 2, weights 4/6 and 2/6: 17/3 and 46/9
    expect_near(run(4), {0.75f + 0.25f * 17.0f / 3.0f, 3.0f + 0.25f * 46.0f / 9.0f}, 1e-5, "groups");
  });
}

TEST(MicroBatches, BatchNormOfLargeOffsetsKeepsItsVariance) {
  on_every_backend([](Backend& backend) {
    OpRun run(backend, BatchNormSpec{}, {{4, 1, 2, 2}});
    Values x(16), expected(16);
    for (std::size_t i = 0; i < 16; ++i) {
      x[i] = 4096.0f + (i % 2 == 0 ? 1.0f : -1.0f);  // variance 1
      expected[i] = i % 2 == 0 ? 1.0f : -1.0f;
    }
    run.set_input(x);
    run.set_param(0, {1});
    run.set_param(1, {0});
    expect_near(run.forward(), expected, 1e-3, "output");
  });
}

TEST(MicroBatches, DropoutMasksFollowTheDocumentedFormula) {
  on_every_backend([](Backend& backend) {
    const DropoutSpec spec{0.25f, 5};
    OpRun run(backend, spec, {{3, 2, 3, 3}});
    run.context = {77, 9, 40, 100};
    run.set_input(Values(54, 3.0f));
    run.set_output_grad(Values(54, 6.0f));
    const Values y = run.forward();
    run.backward();
    int dropped = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const RandomStream stream(77, Purpose::dropout, (std::uint64_t{5} << 40) + 9,
                                static_cast<std::uint32_t>(40 + i / 18));
      const bool is_kept = stream.uniform(i % 18) >= 0.25f;
      dropped += is_kept ? 0 : 1;
      EXPECT_FLOAT_EQ(y[i], is_kept ? 4.0f : 0.0f) << i;
      EXPECT_FLOAT_EQ(run.input_grad()[i], is_kept ? 8.0f : 0.0f) << i;
    }
    EXPECT_GT(dropped, 4);
    EXPECT_LT(dropped, 25);
  });
}

TEST(MicroBatches, DropoutDoesNotSeeTheCutsButSeedsStepsAndStreams) {
  on_every_backend([](Backend& backend) {
    const auto mask = [&](std::uint32_t stream, const RunContext& context, std::int64_t rows) {
      OpRun run(backend, DropoutSpec{0.5f, stream}, {{rows, 37}});
      run.context = context;
      run.set_input(Values(static_cast<std::size_t>(rows * 37), 1.0f));
      return run.forward();
    };
    const Values whole = mask(1, {5, 8, 0, 6}, 6);
    Values pieces = mask(1, {5, 8, 0, 6}, 1);
    for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{1, 3}, {4, 2}}) {
      const Values piece = mask(1, {5, 8, first, 6}, rows);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, whole);
    EXPECT_NE(mask(1, {6, 8, 0, 6}, 6), whole);
    EXPECT_NE(mask(1, {5, 9, 0, 6}, 6), whole);
    EXPECT_NE(mask(2, {5, 8, 0, 6}, 6), whole);
  });
}

TEST(MicroBatches, OutsideTrainingDropoutIsIdentityAndBatchNormUsesItsState) {
  on_every_backend([](Backend& backend) {
    OpRun dropout(backend, DropoutSpec{0.9f, 0}, {{2, 3}}, false);
    dropout.set_input({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(dropout.forward(), (Values{1, 2, 3, 4, 5, 6}));
    BatchNormSpec spec;
    spec.epsilon = 0;
    OpRun norm(backend, spec, {{2, 2}}, false);
    norm.set_input({1, 2, 3, 4});
    norm.set_param(0, {2, 3});
    norm.set_param(1, {10, 20});
    norm.set_state(0, {1, 0});
    norm.set_state(1, {4, 1});
    expect_near(norm.forward(), {10, 26, 12, 32}, 1e-5, "output");
    norm.op().end_step(norm.context);
    EXPECT_EQ(norm.state(0), (Values{1, 0}));  // evaluation never moves the running values
    EXPECT_EQ(norm.state(1), (Values{4, 1}));
  });
}

// A share of the batch without rows contributes zero to every sum; only ref is asked for one (the program never makes
// one for cpu, which says so).
TEST(MicroBatches, WithoutRowsContributeZero) {
  const auto ref = backend_named("ref");
  OpRun norm(*ref, BatchNormSpec{}, {{0, 2, 3, 3}});
  norm.context.global_rows = 5;
  norm.forward_phase(0);
  EXPECT_EQ(norm.forward_statistics, (std::vector<double>{0, 0, 0, 0}));
  norm.forward_statistics = {1, 2, 3, 4};
  norm.forward_phase(1);
  norm.backward_phase(0);
  EXPECT_EQ(norm.backward_statistics, (std::vector<double>{0, 0, 0, 0}));
  norm.backward_phase(1);
  EXPECT_EQ(norm.param_grad(0), (Values{0, 0}));
  EXPECT_EQ(norm.param_grad(1), (Values{0, 0}));
  BatchNormSpec grouped;
  grouped.group = 2;
  OpRun group_norm(*ref, grouped, {{0, 2, 3, 3}});
  group_norm.context.global_rows = 5;
  group_norm.forward();
  EXPECT_EQ(group_norm.deferred_statistics, (std::vector<double>{0, 0, 0, 0}));
  for (const OpSpec& spec : {OpSpec(DenseSpec{3, true, Activation::relu}), OpSpec(LayerNormSpec{})}) {
    OpRun run(*ref, spec, {{0, 4}});
    run.forward();
    run.backward();
    for (std::size_t i = 0; i < 2; ++i)
      for (float g : run.param_grad(i)) EXPECT_EQ(g, 0.0f) << name_of(spec);
    run.expect_intact();
  }
  Conv2dSpec conv;
  conv.filters = 2;
  OpRun run(*ref, conv, {{0, 3, 2, 2}});
  run.forward();
  run.backward();
  EXPECT_EQ(run.param_grad(0), Values(6, 0.0f));
  OpRequest request{DenseSpec{3}, {{{0, 4}, DType::f32, nullptr}}, {}, {}, true, true, 1};
  EXPECT_NE(backend_named("cpu")->why_unsupported(request), "");
}

TEST(MicroBatches, GroupsMustNotBeCut) {
  const auto ref = backend_named("ref");
  BatchNormSpec spec;
  spec.group = 4;
  OpRun run(*ref, spec, {{4, 1}});
  run.context = {7, 3, 2, 8};
  run.set_input({1, 2, 3, 4});
  run.set_param(0, {1});
  run.set_param(1, {0});
  EXPECT_THROW(run.forward(), Error);
}

}  // namespace
}  // namespace muster::device::test
