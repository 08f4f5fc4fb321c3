// The gradients of every op on every backend against central finite differences of L = sum(r * output), summed in
// double. The step is large (2^-4) where the op is linear in what is moved, else small enough for an error of h^2/6
// L''' below the bound. Where a step moves an output across the kink of a fused relu, or changes which element of a
// window is the largest, there is no derivative to compare with: such elements are counted and must stay the exception.
#include "op_harness.hpp"

namespace muster::device::test {
namespace {

struct Slope {
  std::string name;
  OpSpec spec;
  std::vector<Shape> inputs;
  bool has_kinks = false;
  float step = 0.0625f;     ///< a power of two: x + h - (x - h) is exact
  double tolerance = 2e-4;  ///< of the largest gradient of the same tensor
};

double weighted(const Values& output, const Values& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < output.size(); ++i)
    sum += static_cast<double>(output[i]) * static_cast<double>(weights[i]);
  return sum;
}

/// Values without ties: a shuffled ladder with rungs of 0.25 (so a step of 0.0625 changes no order), no rung at 0.
Values ladder(std::int64_t count, std::uint32_t which) {
  Values values = random_values(count, which);
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    values[order[rank]] = 0.25f * (static_cast<float>(rank) - static_cast<float>(order.size() / 2)) + 0.125f;
  return values;
}

class SlopeCheck {
 public:
  SlopeCheck(Backend& backend, const Slope& slope) : slope_(slope), run_(backend, slope.spec, slope.inputs) {
    run_.context.first_row = 12;  // any multiple of the group
    std::uint32_t which = 100;
    const bool has_ladder = std::holds_alternative<Pool2dSpec>(slope.spec);
    for (const Shape& shape : slope.inputs)
      inputs_.push_back(has_ladder ? ladder(shape.elements(), which++) : random_values(shape.elements(), which++));
    for (const Shape& shape : run_.param_shapes()) params_.push_back(random_values(shape.elements(), which++));
    for (std::size_t k = 0; k < inputs_.size(); ++k) run_.set_input(inputs_[k], k);
    for (std::size_t i = 0; i < params_.size(); ++i) run_.set_param(i, params_[i]);
  }

  void check() {
    const Values output = run_.forward();
    weights_ = random_values(static_cast<std::int64_t>(output.size()), 99);
    run_.set_output_grad(weights_);
    if (!run_.op().traits().passes_grad_through) run_.backward();
    std::vector<Values> input_grads, param_grads;  // before any other forward
    for (std::size_t k = 0; k < inputs_.size(); ++k) input_grads.push_back(run_.input_grad(k));
    for (std::size_t i = 0; i < params_.size(); ++i) param_grads.push_back(run_.param_grad(i));
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      compare(inputs_[k], input_grads[k], "input " + std::to_string(k), [&](const Values& v) { run_.set_input(v, k); });
    for (std::size_t i = 0; i < params_.size(); ++i)
      compare(params_[i], param_grads[i], "parameter " + std::to_string(i),
              [&](const Values& v) { run_.set_param(i, v); });
    run_.expect_intact();
  }

 private:
  template <class Set>
  void compare(const Values& start, const Values& grad, const std::string& what, Set set) {
    double largest = 1e-2;
    for (float g : grad) largest = std::max(largest, std::abs(static_cast<double>(g)));
    const std::size_t stride = start.size() / 60 + 1;
    std::size_t tried = 0, at_kinks = 0;
    for (std::size_t e = 0; e < start.size(); e += stride, ++tried) {
      Values moved = start;
      moved[e] = start[e] + slope_.step;
      const double width = static_cast<double>(moved[e]);
      set(moved);
      const Values above = run_.forward();
      moved[e] = start[e] - slope_.step;
      set(moved);
      const Values below = run_.forward();
      if (slope_.has_kinks && crosses(above, below)) {
        ++at_kinks;
        continue;
      }
      const double difference =
          (weighted(above, weights_) - weighted(below, weights_)) / (width - static_cast<double>(moved[e]));
      ASSERT_NEAR(grad[e], difference, slope_.tolerance * largest) << slope_.name << ": " << what << ", element " << e;
    }
    set(start);
    EXPECT_GT(tried, 0u);
    EXPECT_LE(2 * at_kinks, tried) << slope_.name << ": " << what << ": too few elements away from kinks";
  }
  static bool crosses(const Values& above, const Values& below) {
    for (std::size_t i = 0; i < above.size(); ++i)
      if ((above[i] > 0) != (below[i] > 0)) return true;
    return false;
  }

  Slope slope_;
  OpRun run_;
  std::vector<Values> inputs_, params_;
  Values weights_;
};

void check(const Slope& slope) {
  on_every_backend([&](Backend& backend) { SlopeCheck(backend, slope).check(); });
}

TEST(OpGradient, Dense) {
  check({"dense", DenseSpec{3, true, Activation::none}, {{5, 7}}});
  check({"one row", DenseSpec{17, true, Activation::none}, {{1, 16}}});
  check({"no bias", DenseSpec{1, false, Activation::none}, {{16, 3, 2, 2}}});
  check({"relu", DenseSpec{3, true, Activation::relu}, {{2, 9}}, true, 0.0078125f, 1e-3});
}

TEST(OpGradient, Conv2d) {
  for (const std::int64_t channels : {1, 3, 16, 17}) {
    Conv2dSpec spec;
    spec.filters = channels == 1 ? 16 : 5;
    spec.kernel = {3, 2};
    spec.stride = {2, 1};
    spec.padding = {1, 0, 0, 1};
    check({fmt::format("{} channels", channels), spec, {{2, channels, 5, 4}}});
    spec.kernel = {1, 1};
    spec.padding = {0, 0, 0, 0};
    check({fmt::format("1x1, {} channels", channels), spec, {{1, channels, 5, 3}}});
  }
  Conv2dSpec grouped;
  grouped.filters = 6;
  grouped.groups = 3;
  grouped.kernel = {3, 3};
  grouped.dilation = {2, 1};
  grouped.padding = {2, 1, 1, 0};
  grouped.has_bias = false;
  check({"groups, dilation", grouped, {{2, 3, 6, 5}}});
  Conv2dSpec relu;
  relu.filters = 2;
  relu.kernel = {3, 3};
  relu.padding = {1, 1, 1, 1};
  relu.activation = Activation::relu;
  check({"relu", relu, {{1, 2, 4, 4}}, true, 0.00390625f, 2e-3});
}

TEST(OpGradient, Pooling) {
  for (auto kind : {Pool2dSpec::Kind::max, Pool2dSpec::Kind::average})
    for (const std::int64_t channels : {1, 3, 16, 17}) {
      Pool2dSpec spec;
      spec.kind = kind;
      spec.kernel = {3, 2};
      spec.stride = {1, 2};
      spec.padding = {1, 1, 2, 0};
      check({name_of(OpSpec(spec)), spec, {{2, channels, 5, 7}}});
      spec.is_global = true;
      check({name_of(OpSpec(spec)), spec, {{2, channels, 3, 5}}});
    }
}

TEST(OpGradient, BatchNorm) {
  for (const std::int64_t group : {0, 3})
    for (const bool has_residual : {false, true})
      for (const Shape& shape : {Shape{5, 3}, Shape{5, 2, 3, 3}, Shape{4, 17, 2, 1}}) {
        BatchNormSpec spec;
        spec.group = group;
        spec.has_residual = has_residual;
        Slope slope{fmt::format("{} group {} residual {}", shape.text(), group, has_residual), spec, {shape}};
        if (has_residual) slope.inputs.push_back(shape);
        slope.step = 0.0078125f;
        slope.tolerance = 1e-2;
        // one row in its own group has no variance over [n, c]: its output does not depend on the input at all
        if (group == 3 && shape.rank() == 2) slope.inputs.assign(slope.inputs.size(), Shape{6, 3});
        if (group == 3 && shape == Shape{4, 17, 2, 1}) slope.inputs.assign(slope.inputs.size(), Shape{5, 17, 2, 1});
        check(slope);
      }
  BatchNormSpec spec;
  spec.activation = Activation::relu;
  spec.has_residual = true;
  check({"relu", spec, {{3, 2, 2, 2}, {3, 2, 2, 2}}, true, 0.0078125f, 1e-2});
}

TEST(OpGradient, LayerNorm) {
  check({"layer norm", LayerNormSpec{}, {{5, 9}}, false, 0.015625f, 2e-3});
  check({"images", LayerNormSpec{}, {{2, 3, 3, 5}}, false, 0.015625f, 2e-3});
}

TEST(OpGradient, Activations) {
  for (auto kind : {Activation::none, Activation::gelu, Activation::silu, Activation::tanh, Activation::sigmoid})
    for (const bool is_gelu_tanh : {false, true}) {
      const ActivationSpec spec{kind, 0.2f, is_gelu_tanh};
      check({name_of(OpSpec(spec)), spec, {{2, 17, 1, 3}}, false, 0.0078125f, 1e-3});
    }
  check({"leaky", ActivationSpec{Activation::leaky_relu, 0.2f, false}, {{3, 16}}, true, 0.0078125f, 1e-3});
  check({"relu", ActivationSpec{Activation::relu, 0, false}, {{3, 16}}, true, 0.0078125f, 1e-3});
}

TEST(OpGradient, TheRest) {
  check({"dropout", DropoutSpec{0.4f, 3}, {{3, 17, 2, 2}}});
  check({"add", AddSpec{}, {{2, 5}, {2, 5}, {2, 5}}});
  check({"add relu", AddSpec{Activation::relu}, {{2, 5}, {2, 5}}, true, 0.0078125f, 1e-3});
  check({"concat", ConcatSpec{}, {{2, 3, 2, 2}, {2, 16, 2, 2}, {2, 1, 2, 2}}});
  check({"reshape", ReshapeSpec{{2, 3, 4}}, {{2, 24}}});
}

TEST(OpGradient, PerPosition) {
  check({"dense", DenseSpec{3, true, Activation::none, true}, {{2, 5, 7}}});
  check({"layer norm", LayerNormSpec{1e-5f, true}, {{2, 3, 9}}, false, 0.015625f, 2e-3});
  check({"rms norm", RmsNormSpec{}, {{2, 3, 9}}, false, 0.015625f, 2e-3});
  check({"swiglu", SwigluSpec{}, {{2, 3, 10}}, false, 0.0078125f, 1e-3});
  check({"positional embedding", PositionalEmbeddingSpec{4}, {{2, 3, 5}}});
  check({"rotary", RotarySpec{2, 4}, {{2, 5, 9}}});
}

TEST(OpGradient, Attention) {
  for (const bool is_causal : {true, false})
    for (const float dropout : {0.0f, 0.25f}) {
      AttentionSpec spec;
      spec.heads = 4;
      spec.kv_heads = 2;
      spec.head_dim = 3;
      spec.is_causal = is_causal;
      spec.dropout = dropout;
      check({fmt::format("attention, causal {}, dropout {}", is_causal, dropout),
             spec,
             {{2, 6, 24}},
             false,
             0.015625f,
             2e-3});
      check({"one position", spec, {{2, 1, 24}}, false, 0.015625f, 2e-3});
    }
  AttentionSpec long_one;
  long_one.head_dim = 2;
  check({"two blocks", long_one, {{1, 67, 6}}, false, 0.015625f, 2e-3});
}

}  // namespace
}  // namespace muster::device::test
