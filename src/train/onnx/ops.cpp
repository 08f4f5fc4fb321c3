// What each op of muster is in the operators of ONNX.
#include "train/onnx/graph.hpp"

#include <muster/base/error.hpp>
#include <muster/train/onnx.hpp>

#include <cmath>
#include <map>
#include <numbers>

namespace muster::train {
namespace {

using device::Activation;
using onnx::Attribute;
using onnx::Graph;
using Ints = std::vector<std::int64_t>;

class Exporter {
 public:
  Exporter(const model::Network& network, const std::vector<NamedTensor>& tensors) : network_(network) {
    for (const NamedTensor& tensor : tensors) tensors_[tensor.name] = &tensor;
  }

  std::string run() {
    const bool reads_tokens = std::holds_alternative<device::EmbeddingSpec>(network_.nodes.front().spec);
    std::vector<std::string> values;
    for (const model::Node& node : network_.nodes) {
      node_ = &node;
      inputs_.clear();
      for (const int source : node.inputs)
        inputs_.push_back(source == model::network_input ? "input" : values[static_cast<std::size_t>(source)]);
      values.push_back(std::visit([this](const auto& spec) { return convert(spec); }, node.spec));
    }
    return graph_.model(reads_tokens ? onnx::Element::int64 : onnx::Element::float32, network_.input, values.back(),
                        network_.output, onnx_opset);
  }

 private:
  // ---- what a node reads
  const std::string& x(std::size_t k = 0) const { return inputs_[k]; }
  const Shape& shape(std::size_t k = 0) const { return network_.input_shape(*node_, k); }
  const NamedTensor& values_of(const std::string& name) const { return *tensors_.at(name); }
  const std::string& param_name(std::size_t k) const {
    return network_.params[static_cast<std::size_t>(node_->params[k])].name;
  }
  /// A constant per tensor, however many nodes read it (tied weights).
  std::string tensor(const std::string& name) {
    auto& constant = constants_[name];
    if (constant.empty()) constant = graph_.constant(name, values_of(name).shape.extents(), values_of(name).values);
    return constant;
  }
  std::string param(std::size_t k) { return tensor(param_name(k)); }
  std::string state(std::size_t k) { return tensor(network_.states[static_cast<std::size_t>(node_->states[k])].name); }
  std::string add(const std::string& type, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {}) {
    return graph_.add(node_->name, type, inputs, attributes);
  }
  std::string number(double value) { return graph_.number(node_->name + "/number", static_cast<float>(value)); }
  /// The same samples in another shape.
  std::string reshaped(const std::string& value, const Ints& sample) {
    Ints dims{0};  // as it is
    dims.insert(dims.end(), sample.begin(), sample.end());
    return add("Reshape", {value, graph_.constant(node_->name + "/shape", dims)});
  }
  std::string transposed(const std::string& value, const Ints& order) {
    return add("Transpose", {value}, {{"perm", order}});
  }

  std::string activated(const std::string& value, Activation activation) {
    return activation == Activation::relu ? add("Relu", {value}) : value;
  }

  // ---- ops
  std::string convert(const device::DenseSpec& spec) {
    std::string y;
    if (spec.is_per_position) {
      y = add("MatMul", {x(), transposed(param(0), {1, 0})});
      if (spec.has_bias) y = add("Add", {y, param(1)});
    } else {
      std::vector<std::string> inputs{shape().rank() == 1 ? x() : add("Flatten", {x()}), param(0)};
      if (spec.has_bias) inputs.push_back(param(1));
      y = add("Gemm", inputs, {{"transB", std::int64_t{1}}});
    }
    return activated(y, spec.activation);
  }

  std::string convert(const device::Conv2dSpec& spec) {
    std::vector<std::string> inputs{x(), param(0)};
    if (spec.has_bias) inputs.push_back(param(1));
    const std::string y = add("Conv", inputs,
                              {{"kernel_shape", Ints(spec.kernel.begin(), spec.kernel.end())},
                               {"strides", Ints(spec.stride.begin(), spec.stride.end())},
                               {"dilations", Ints(spec.dilation.begin(), spec.dilation.end())},
                               {"pads", Ints(spec.padding.begin(), spec.padding.end())},
                               {"group", spec.groups}});
    return activated(y, spec.activation);
  }

  std::string convert(const device::Pool2dSpec& spec) {
    const bool is_max = spec.kind == device::Pool2dSpec::Kind::max;
    if (spec.is_global) return add("Flatten", {add(is_max ? "GlobalMaxPool" : "GlobalAveragePool", {x()})});
    return add(is_max ? "MaxPool" : "AveragePool", {x()},  // (an average leaves the padding out, as ours)
               {{"kernel_shape", Ints(spec.kernel.begin(), spec.kernel.end())},
                {"strides", Ints(spec.stride.begin(), spec.stride.end())},
                {"pads", Ints(spec.padding.begin(), spec.padding.end())}});
  }

  std::string convert(const device::BatchNormSpec& spec) {
    std::string y =
        add("BatchNormalization", {x(), param(0), param(1), state(0), state(1)}, {{"epsilon", double{spec.epsilon}}});
    if (spec.has_residual) y = add("Add", {y, x(1)});
    return activated(y, spec.activation);
  }

  std::string convert(const device::LayerNormSpec& spec) {
    return add("LayerNormalization", {x(), param(0), param(1)},
               {{"axis", std::int64_t{spec.is_per_position ? -1 : 1}}, {"epsilon", double{spec.epsilon}}});
  }

  std::string convert(const device::RmsNormSpec& spec) {
    const std::string squares = add("ReduceMean", {add("Mul", {x(), x()})}, {{"axes", Ints{-1}}});
    const std::string root = add("Sqrt", {add("Add", {squares, number(double{spec.epsilon})})});
    return add("Mul", {add("Div", {x(), root}), param(0)});
  }

  std::string silu(const std::string& value) { return add("Mul", {value, add("Sigmoid", {value})}); }

  std::string gelu(bool is_tanh) {
    std::string inner;
    if (is_tanh) {
      const std::string cube = add("Mul", {add("Mul", {x(), x()}), x()});
      const std::string sum = add("Add", {x(), add("Mul", {cube, number(0.044715)})});
      inner = add("Tanh", {add("Mul", {sum, number(std::sqrt(2 / std::numbers::pi))})});
    } else {
      inner = add("Erf", {add("Mul", {x(), number(1 / std::numbers::sqrt2)})});
    }
    return add("Mul", {add("Mul", {x(), number(0.5)}), add("Add", {inner, number(1)})});
  }

  std::string convert(const device::ActivationSpec& spec) {
    switch (spec.kind) {
      case Activation::none:
        return x();
      case Activation::relu:
        return add("Relu", {x()});
      case Activation::leaky_relu:
        return add("LeakyRelu", {x()}, {{"alpha", double{spec.slope}}});
      case Activation::gelu:
        return gelu(spec.is_gelu_tanh);
      case Activation::silu:
        return silu(x());
      case Activation::tanh:
        return add("Tanh", {x()});
      case Activation::sigmoid:
        return add("Sigmoid", {x()});
    }
    fail(ExitCode::internal, "export: activation {} of {}", static_cast<int>(spec.kind), node_->name);
  }

  std::string convert(const device::DropoutSpec&) { return x(); }

  std::string convert(const device::AddSpec& spec) {
    std::string sum = x();
    for (std::size_t k = 1; k < inputs_.size(); ++k) sum = add("Add", {sum, x(k)});
    return activated(sum, spec.activation);
  }

  std::string convert(const device::ConcatSpec&) { return add("Concat", inputs_, {{"axis", std::int64_t{1}}}); }
  std::string convert(const device::ReshapeSpec& spec) { return reshaped(x(), spec.sample_shape.extents()); }
  std::string convert(const device::EmbeddingSpec&) { return add("Gather", {param(0), x()}); }

  std::string convert(const device::PositionalEmbeddingSpec&) {
    const NamedTensor& all = values_of(param_name(0));
    const std::int64_t length = shape()[0], width = shape()[1];
    const std::span<const float> used(all.values.data(), static_cast<std::size_t>(length * width));
    return add("Add", {x(), graph_.constant(param_name(0), {length, width}, used)});
  }

  /// cos and sin of the angle of every (position, pair of features): [length, 1, head_dim / 2].
  std::pair<std::string, std::string> angles(const device::RotarySpec& spec) {
    const std::int64_t length = shape()[0], half = spec.head_dim / 2;
    std::vector<float> cosines, sines;
    for (std::int64_t position = 0; position < length; ++position)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(double{spec.base}, -static_cast<double>(i) / static_cast<double>(half));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    return {graph_.constant(node_->name + "/cos", {length, 1, half}, cosines),
            graph_.constant(node_->name + "/sin", {length, 1, half}, sines)};
  }

  std::string convert(const device::RotarySpec& spec) {
    const std::int64_t length = shape()[0], turned = spec.heads * spec.head_dim, rest = shape()[1] - turned;
    std::vector<std::string> parts{x()};
    if (rest > 0) parts = graph_.add_split(node_->name, x(), {turned, rest}, 2);
    const std::string heads = reshaped(parts[0], {length, spec.heads, spec.head_dim});
    const auto halves = graph_.add_split(node_->name, heads, {spec.head_dim / 2, spec.head_dim / 2}, 3);
    const auto [cosines, sines] = angles(spec);
    const std::string first = add("Sub", {add("Mul", {halves[0], cosines}), add("Mul", {halves[1], sines})});
    const std::string second = add("Add", {add("Mul", {halves[0], sines}), add("Mul", {halves[1], cosines})});
    parts[0] = reshaped(add("Concat", {first, second}, {{"axis", std::int64_t{3}}}), {length, turned});
    return rest > 0 ? add("Concat", parts, {{"axis", std::int64_t{2}}}) : parts[0];
  }

  /// 0 where position i sees position j, else minus infinity: [length, length].
  std::string causal_mask(std::int64_t length) {
    std::vector<float> mask;
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t j = 0; j < length; ++j) mask.push_back(j <= i ? 0.0f : -INFINITY);
    return graph_.constant(node_->name + "/mask", {length, length}, mask);
  }

  std::string convert(const device::AttentionSpec& spec) {
    const std::int64_t length = shape()[0], size = spec.head_dim, groups = spec.heads / spec.kv_heads;
    const auto parts =
        graph_.add_split(node_->name, x(), {spec.heads * size, spec.kv_heads * size, spec.kv_heads * size}, 2);
    // [n, key/value head, its query heads (one of keys and values), position, feature]
    const std::string q = transposed(reshaped(parts[0], {length, spec.kv_heads, groups, size}), {0, 2, 3, 1, 4});
    const std::string k = transposed(reshaped(parts[1], {length, spec.kv_heads, 1, size}), {0, 2, 3, 4, 1});
    const std::string v = transposed(reshaped(parts[2], {length, spec.kv_heads, 1, size}), {0, 2, 3, 1, 4});
    std::string scores = add("Mul", {add("MatMul", {q, k}), number(1 / std::sqrt(static_cast<double>(size)))});
    if (spec.is_causal) scores = add("Add", {scores, causal_mask(length)});
    const std::string mixed = add("MatMul", {add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), v});
    return reshaped(transposed(mixed, {0, 3, 1, 2, 4}), {length, spec.heads * size});
  }

  std::string convert(const device::SwigluSpec&) {
    const std::int64_t axis = static_cast<std::int64_t>(shape().rank());
    const std::int64_t half = shape()[shape().rank() - 1] / 2;
    const auto halves = graph_.add_split(node_->name, x(), {half, half}, axis);
    return add("Mul", {silu(halves[0]), halves[1]});
  }

  const model::Network& network_;
  std::map<std::string, const NamedTensor*> tensors_;
  std::map<std::string, std::string> constants_;
  Graph graph_;
  const model::Node* node_ = nullptr;
  std::vector<std::string> inputs_;
};

}  // namespace

std::string to_onnx(const model::Network& network, const std::vector<NamedTensor>& tensors) {
  return Exporter(network, tensors).run();
}

}  // namespace muster::train
