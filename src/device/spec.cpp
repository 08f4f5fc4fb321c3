// Shapes, parameters and costs of every op: the backend-neutral half of device/spec.hpp. One overload per op and
// question.
#include <muster/base/error.hpp>
#include <muster/device/spec.hpp>

#include <algorithm>

namespace muster::device {
namespace {

void expect_image(const char* op, const Shape& x) {
  if (x.rank() != 3)
    fail(ExitCode::usage, "{} expects images [channels, height, width], found {}; add a reshape before it", op,
         x.text());
}

/// Output extent of a window along one axis; 0 or less: it does not fit.
std::int64_t window_output(std::int64_t extent, std::int64_t padding, std::int64_t kernel, std::int64_t stride,
                           std::int64_t dilation) {
  const std::int64_t room = extent + padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

template <class Spec>
std::array<std::int64_t, 2> window_outputs(const char* op, const Spec& spec,
                                           const std::array<std::int64_t, 2>& dilation, const Shape& x) {
  std::array<std::int64_t, 2> out{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (std::min({spec.kernel[axis], spec.stride[axis], dilation[axis]}) < 1)
      fail(ExitCode::usage, "{}: kernel, stride and dilation: expected at least 1, found {}, {} and {}", op,
           spec.kernel[axis], spec.stride[axis], dilation[axis]);
    if (std::min(spec.padding[axis], spec.padding[axis + 2]) < 0)
      fail(ExitCode::usage, "{}: padding: expected at least 0, found {}", op, fmt::join(spec.padding, ","));
    out[axis] = window_output(x[axis + 1], spec.padding[axis] + spec.padding[axis + 2], spec.kernel[axis],
                              spec.stride[axis], dilation[axis]);
    if (out[axis] <= 0)
      fail(ExitCode::usage,
           "{}: a window of {}x{} does not fit into {} with padding {}; use a smaller kernel or more padding", op,
           spec.kernel[0], spec.kernel[1], x.text(), fmt::join(spec.padding, ","));
  }
  return out;
}

/// x with another last extent.
Shape with_last(const Shape& x, std::int64_t extent) {
  Shape out = x;
  out[out.rank() - 1] = extent;
  return out;
}

std::int64_t last_of(const Shape& x) { return x[x.rank() - 1]; }

void expect_axes(const char* op, const Shape& x, std::size_t at_least, const char* wanted) {
  if (x.rank() < at_least) fail(ExitCode::usage, "{} expects {}, found {}", op, wanted, x.text());
}

Shape shape_of(const DenseSpec& s, const std::vector<Shape>& in) {
  if (s.units < 1) fail(ExitCode::usage, "dense: units: expected at least 1, found {}", s.units);
  if (!s.is_per_position) return {s.units};
  expect_axes("dense", in[0], 1, "[..., features]");
  return with_last(in[0], s.units);
}

Shape shape_of(const Conv2dSpec& s, const std::vector<Shape>& in) {
  expect_image("conv2d", in[0]);
  if (s.filters < 1) fail(ExitCode::usage, "conv2d: filters: expected at least 1, found {}", s.filters);
  if (s.groups < 1 || in[0][0] % s.groups != 0 || s.filters % s.groups != 0)
    fail(ExitCode::usage, "conv2d: groups {} must divide both the {} input channels and the {} filters", s.groups,
         in[0][0], s.filters);
  const auto out = window_outputs("conv2d", s, s.dilation, in[0]);
  return {s.filters, out[0], out[1]};
}

Shape shape_of(const Pool2dSpec& s, const std::vector<Shape>& in) {
  expect_image("pooling", in[0]);
  if (s.is_global) return {in[0][0]};
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (s.padding[axis] >= s.kernel[axis % 2])
      fail(ExitCode::usage, "pooling: padding {} must be smaller than the kernel {}x{}", s.padding[axis], s.kernel[0],
           s.kernel[1]);
  const auto out = window_outputs("pooling", s, {1, 1}, in[0]);
  return {in[0][0], out[0], out[1]};
}

Shape shape_of(const BatchNormSpec& s, const std::vector<Shape>& in) {
  if (in[0].rank() != 1 && in[0].rank() != 3)
    fail(ExitCode::usage, "batch_norm expects [channels] or [channels, height, width], found {}", in[0].text());
  if (s.has_residual && in[1] != in[0])
    fail(ExitCode::usage, "batch_norm: the residual must have the input's shape {}, found {}", in[0].text(),
         in[1].text());
  if (s.group < 0) fail(ExitCode::usage, "batch_norm: group: expected 0 (global) or more samples, found {}", s.group);
  return in[0];
}
Shape shape_of(const LayerNormSpec& s, const std::vector<Shape>& in) {
  if (s.is_per_position) expect_axes("layer_norm", in[0], 1, "[..., features]");
  return in[0];
}
Shape shape_of(const RmsNormSpec&, const std::vector<Shape>& in) {
  expect_axes("rms_norm", in[0], 1, "[..., features]");
  return in[0];
}
Shape shape_of(const ActivationSpec&, const std::vector<Shape>& in) { return in[0]; }
Shape shape_of(const DropoutSpec& s, const std::vector<Shape>& in) {
  if (!(s.rate >= 0 && s.rate < 1)) fail(ExitCode::usage, "dropout: rate: expected 0 <= rate < 1, found {}", s.rate);
  return in[0];
}

Shape shape_of(const AddSpec&, const std::vector<Shape>& in) {
  for (const Shape& x : in)
    if (x != in[0]) fail(ExitCode::usage, "add expects inputs of one shape, found {} and {}", in[0].text(), x.text());
  return in[0];
}

Shape shape_of(const ConcatSpec&, const std::vector<Shape>& in) {
  Shape out = in[0];
  if (out.rank() == 0) fail(ExitCode::usage, "concat expects inputs with channels, found a scalar");
  out[0] = 0;
  for (const Shape& x : in) {
    const bool fits = x.rank() == in[0].rank() && std::equal(x.begin() + 1, x.end(), in[0].begin() + 1);
    if (!fits)
      fail(ExitCode::usage, "concat joins channels: all other extents must agree, found {} and {}", in[0].text(),
           x.text());
    out[0] += x[0];
  }
  return out;
}

Shape shape_of(const ReshapeSpec& s, const std::vector<Shape>& in) {
  if (std::any_of(s.sample_shape.begin(), s.sample_shape.end(), [](std::int64_t extent) { return extent < 1; }))
    fail(ExitCode::usage, "reshape: every extent must be at least 1, found {}", s.sample_shape.text());
  if (s.sample_shape.elements() != in[0].elements())
    fail(ExitCode::usage, "reshape: {} has {} elements, but the input {} has {}", s.sample_shape.text(),
         s.sample_shape.elements(), in[0].text(), in[0].elements());
  return s.sample_shape;
}

constexpr std::int64_t most_token_ids = std::int64_t{1} << 24;  // every whole number below is a float

Shape shape_of(const EmbeddingSpec& s, const std::vector<Shape>& in) {
  if (s.vocabulary < 1 || s.vocabulary > most_token_ids || s.width < 1)
    fail(ExitCode::usage, "embedding: expected 1 <= vocabulary <= {} and width >= 1, found {} and {}", most_token_ids,
         s.vocabulary, s.width);
  if (in[0].rank() != 1) fail(ExitCode::usage, "embedding expects token ids [positions], found {}", in[0].text());
  return {in[0][0], s.width};
}

void expect_sequence(const char* op, const Shape& x) {
  if (x.rank() != 2) fail(ExitCode::usage, "{} expects [positions, features], found {}", op, x.text());
}

Shape shape_of(const PositionalEmbeddingSpec& s, const std::vector<Shape>& in) {
  expect_sequence("positional_embedding", in[0]);
  if (s.length < in[0][0])
    fail(ExitCode::usage, "positional_embedding: length {} is below the {} positions of its input {}", s.length,
         in[0][0], in[0].text());
  return in[0];
}

Shape shape_of(const RotarySpec& s, const std::vector<Shape>& in) {
  expect_sequence("rotary", in[0]);
  if (s.heads < 1 || s.head_dim < 2 || s.head_dim % 2 != 0)
    fail(ExitCode::usage, "rotary: expected at least one head of an even number of features, found {} of {}", s.heads,
         s.head_dim);
  if (s.heads * s.head_dim > in[0][1])
    fail(ExitCode::usage, "rotary: {} heads of {} features do not fit into {}", s.heads, s.head_dim, in[0].text());
  if (!(s.base > 1)) fail(ExitCode::usage, "rotary: base: expected more than 1, found {}", s.base);
  return in[0];
}

Shape shape_of(const AttentionSpec& s, const std::vector<Shape>& in) {
  expect_sequence("attention", in[0]);
  if (s.heads < 1 || s.kv_heads < 1 || s.head_dim < 1 || s.heads % s.kv_heads != 0)
    fail(ExitCode::usage, "attention: the number of key/value heads must divide that of heads, found {} and {}",
         s.kv_heads, s.heads);
  const std::int64_t features = (s.heads + 2 * s.kv_heads) * s.head_dim;
  if (in[0][1] != features)
    fail(ExitCode::usage, "attention: {} heads and {} key/value heads of {} features need {} in all, found {}", s.heads,
         s.kv_heads, s.head_dim, features, in[0].text());
  if (!(s.dropout >= 0 && s.dropout < 1))
    fail(ExitCode::usage, "attention: dropout: expected 0 <= dropout < 1, found {}", s.dropout);
  if (s.cache > 0 && (!s.is_causal || s.cache < in[0][0]))
    fail(ExitCode::usage, "attention: a cache of {} positions needs causal attention over at most as many, found {}",
         s.cache, s.is_causal ? in[0].text() : "attention that is not causal");
  return {in[0][0], s.heads * s.head_dim};
}

Shape shape_of(const SwigluSpec&, const std::vector<Shape>& in) {
  expect_axes("swiglu", in[0], 1, "[..., 2 features]");
  if (last_of(in[0]) % 2 != 0)
    fail(ExitCode::usage, "swiglu expects an even last extent (gates and values), found {}", in[0].text());
  return with_last(in[0], last_of(in[0]) / 2);
}

using Params = std::vector<ParamShape>;
Params params_of(const DenseSpec& s, const std::vector<Shape>& in) {
  Params params{{"weight", {s.units, s.is_per_position ? last_of(in[0]) : in[0].elements()}}};
  if (s.has_bias) params.push_back({"bias", {s.units}});
  return params;
}
Params params_of(const Conv2dSpec& s, const std::vector<Shape>& in) {
  Params params{{"weight", {s.filters, in[0][0] / s.groups, s.kernel[0], s.kernel[1]}}};
  if (s.has_bias) params.push_back({"bias", {s.filters}});
  return params;
}
Params params_of(const BatchNormSpec&, const std::vector<Shape>& in) {
  return {{"gamma", {in[0][0]}}, {"beta", {in[0][0]}}};
}
Params params_of(const LayerNormSpec& s, const std::vector<Shape>& in) {
  const Shape shape = s.is_per_position ? Shape{last_of(in[0])} : in[0];
  return {{"gamma", shape}, {"beta", shape}};
}
Params params_of(const RmsNormSpec&, const std::vector<Shape>& in) { return {{"gamma", {last_of(in[0])}}}; }
Params params_of(const EmbeddingSpec& s, const std::vector<Shape>&) { return {{"weight", {s.vocabulary, s.width}}}; }
Params params_of(const PositionalEmbeddingSpec& s, const std::vector<Shape>& in) {
  return {{"weight", {s.length, in[0][1]}}};
}
template <class Other>
Params params_of(const Other&, const std::vector<Shape>&) {
  return {};
}

double flops_of(const DenseSpec& s, const std::vector<Shape>& in) {
  return 2.0 * static_cast<double>(s.units * in[0].elements());
}
double flops_of(const Conv2dSpec& s, const std::vector<Shape>& in) {
  const Shape out = shape_of(s, in);
  return 2.0 * static_cast<double>(out.elements() * (in[0][0] / s.groups) * s.kernel[0] * s.kernel[1]);
}
double flops_of(const AttentionSpec& s, const std::vector<Shape>& in) {  // two products over all pairs of positions
  const double t = static_cast<double>(in[0][0]), pairs = s.is_causal ? t * (t + 1) / 2 : t * t;
  return 4.0 * pairs * static_cast<double>(s.heads * s.head_dim);
}
template <class Other>
double flops_of(const Other&, const std::vector<Shape>&) {
  return 0;
}

struct NameOf {
  std::string operator()(const DenseSpec&) const { return "dense"; }
  std::string operator()(const Conv2dSpec&) const { return "conv2d"; }
  std::string operator()(const Pool2dSpec& s) const {
    return fmt::format("{}{}_pool", s.is_global ? "global_" : "", s.kind == Pool2dSpec::Kind::max ? "max" : "average");
  }
  std::string operator()(const BatchNormSpec&) const { return "batch_norm"; }
  std::string operator()(const LayerNormSpec&) const { return "layer_norm"; }
  std::string operator()(const ActivationSpec& s) const {
    static const char* names[] = {"none", "relu", "leaky_relu", "gelu", "silu", "tanh", "sigmoid"};
    return names[static_cast<int>(s.kind)];
  }
  std::string operator()(const DropoutSpec&) const { return "dropout"; }
  std::string operator()(const AddSpec&) const { return "add"; }
  std::string operator()(const ConcatSpec&) const { return "concat"; }
  std::string operator()(const ReshapeSpec&) const { return "reshape"; }
  std::string operator()(const EmbeddingSpec&) const { return "embedding"; }
  std::string operator()(const PositionalEmbeddingSpec&) const { return "positional_embedding"; }
  std::string operator()(const RotarySpec&) const { return "rotary"; }
  std::string operator()(const AttentionSpec&) const { return "attention"; }
  std::string operator()(const RmsNormSpec&) const { return "rms_norm"; }
  std::string operator()(const SwigluSpec&) const { return "swiglu"; }
};

}  // namespace

std::string name_of(const OpSpec& spec) { return std::visit(NameOf{}, spec); }

Shape output_shape(const OpSpec& spec, const std::vector<Shape>& inputs) {
  const auto* norm = std::get_if<BatchNormSpec>(&spec);
  const bool is_joining = std::holds_alternative<AddSpec>(spec) || std::holds_alternative<ConcatSpec>(spec);
  const std::size_t expected = norm && norm->has_residual ? 2 : 1;
  if (is_joining ? inputs.empty() : inputs.size() != expected)
    fail(ExitCode::usage, "{} expects {} input{}, found {}", name_of(spec),
         is_joining ? "at least 1" : std::to_string(expected), expected == 1 ? "" : "s", inputs.size());
  return std::visit([&](const auto& s) { return shape_of(s, inputs); }, spec);
}

std::vector<ParamShape> param_shapes(const OpSpec& spec, const std::vector<Shape>& inputs) {
  return std::visit([&](const auto& s) { return params_of(s, inputs); }, spec);
}

std::vector<ParamShape> state_shapes(const OpSpec& spec, const std::vector<Shape>& inputs) {
  if (!std::holds_alternative<BatchNormSpec>(spec)) return {};
  return {{"running_mean", {inputs[0][0]}}, {"running_var", {inputs[0][0]}}};
}

double forward_flops(const OpSpec& spec, const std::vector<Shape>& inputs) {
  return std::visit([&](const auto& s) { return flops_of(s, inputs); }, spec);
}

}  // namespace muster::device
