// From the layer list to the graph of ops. One visit function per layer type; each appends nodes and returns the index
// of its result. Shape errors are caught here to say which layer it was.
#include <muster/model/network.hpp>

#include <muster/base/error.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace muster::model {
namespace {

using device::OpSpec;

/// Keras' "same": output extent ceil(input / stride); what does not divide goes below and to the right.
std::array<std::int64_t, 4> same_padding(const Shape& image, const std::array<std::int64_t, 2>& kernel,
                                         const std::array<std::int64_t, 2>& stride,
                                         const std::array<std::int64_t, 2>& dilation) {
  std::array<std::int64_t, 4> padding{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extent = image[axis + 1];
    const std::int64_t window = dilation[axis] * (kernel[axis] - 1) + 1;
    const std::int64_t result = (extent + stride[axis] - 1) / stride[axis];
    const std::int64_t total = std::max<std::int64_t>((result - 1) * stride[axis] + window - extent, 0);
    padding[axis] = total / 2;
    padding[axis + 2] = total - total / 2;
  }
  return padding;
}

class Builder {
 public:
  explicit Builder(const ModelOptions& options) {
    network_.input = options.input;
    network_.loss = options.loss;
    network_.top_k = options.top_k;
  }

  int add_list(const LayerList& layers, int input) {
    for (const LayerSpec& layer : layers) input = add_layer(layer, input);
    return input;
  }

  Network finish(int output) {
    if (network_.nodes.empty()) fail(ExitCode::usage, "model.layers: expected at least one layer, found none");
    network_.output = shape_of(output);
    check_loss();
    return std::move(network_);
  }

 private:
  const Shape& shape_of(int node) const {
    return node == network_input ? network_.input : network_.nodes[static_cast<std::size_t>(node)].output;
  }

  int add_layer(const LayerSpec& layer, int input) {
    return std::visit([&](const auto& options) { return visit(layer, options, input); }, layer.options);
  }

  int visit(const LayerSpec& layer, const DenseLayer& options, int input) {
    return add_node(layer, options.op, {input}, options.weight, options.bias);
  }
  int visit(const LayerSpec& layer, const Conv2dLayer& options, int input) {
    device::Conv2dSpec spec = options.op;
    if (options.is_same_padding && shape_of(input).rank() == 3)
      spec.padding = same_padding(shape_of(input), spec.kernel, spec.stride, spec.dilation);
    return add_node(layer, spec, {input}, options.weight, options.bias);
  }
  int visit(const LayerSpec& layer, const Pool2dLayer& options, int input) {
    device::Pool2dSpec spec = options.op;
    if (options.is_same_padding && shape_of(input).rank() == 3)
      spec.padding = same_padding(shape_of(input), spec.kernel, spec.stride, {1, 1});
    return add_node(layer, spec, {input});
  }
  int visit(const LayerSpec& layer, const BatchNormLayer& options, int input) {
    return add_node(layer, options.op, {input});
  }
  int visit(const LayerSpec& layer, const LayerNormLayer& options, int input) {
    return add_node(layer, options.op, {input});
  }
  int visit(const LayerSpec& layer, const ActivationLayer& options, int input) {
    return add_node(layer, options.op, {input});
  }
  int visit(const LayerSpec& layer, const DropoutLayer& options, int input) {
    device::DropoutSpec spec = options.op;
    spec.stream = dropouts_++;
    return add_node(layer, spec, {input});
  }
  int visit(const LayerSpec& layer, const FlattenLayer&, int input) {
    return add_node(layer, device::ReshapeSpec{Shape{shape_of(input).elements()}}, {input});
  }
  int visit(const LayerSpec& layer, const ReshapeLayer& options, int input) {
    return add_node(layer, options.op, {input});
  }
  int visit(const LayerSpec& layer, const ResidualLayer&, int input) {
    std::vector<int> ends;
    for (const LayerList& branch : layer.branches) ends.push_back(add_list(branch, input));
    while (ends.size() < 2) ends.push_back(input);
    if (shape_of(ends[0]) != shape_of(ends[1])) {
      fail(ExitCode::usage,
           "{}: layer '{}': main and shortcut must end in the same shape, found {} and {}; give the shortcut a conv2d "
           "with the main branch's filters and stride",
           layer.where, layer.name, shape_of(ends[0]).text(), shape_of(ends[1]).text());
    }
    return add_node(layer, device::AddSpec{}, ends);
  }
  int visit(const LayerSpec& layer, const BranchesLayer& options, int input) {
    std::vector<int> ends;
    for (const LayerList& branch : layer.branches) ends.push_back(add_list(branch, input));
    if (options.is_concat) return add_node(layer, device::ConcatSpec{}, ends);
    return add_node(layer, device::AddSpec{}, ends);
  }

  int add_node(const LayerSpec& layer, OpSpec spec, std::vector<int> inputs, const Initializer& weight = {},
               const Initializer& bias = {}) {
    Node node{layer.name, layer.where, std::move(spec), std::move(inputs), {}, {}, {}};
    std::vector<Shape> shapes;
    for (int i : node.inputs) shapes.push_back(shape_of(i));
    try {
      node.output = device::output_shape(node.spec, shapes);
    } catch (const Error& error) {
      fail(ExitCode::usage, "{}: layer '{}': {}", layer.where, layer.name, error.what());
    }
    if (node.output.elements() <= 0)
      fail(ExitCode::usage, "{}: layer '{}': its output {} has no elements; its input is {}", layer.where, layer.name,
           node.output.text(), shapes.front().text());
    add_params(node, shapes, weight, bias);
    network_.nodes.push_back(std::move(node));
    return static_cast<int>(network_.nodes.size()) - 1;
  }

  void add_params(Node& node, const std::vector<Shape>& inputs, const Initializer& weight, const Initializer& bias) {
    std::int64_t fan_in = 1, fan_out = 1;
    for (const device::ParamShape& param : device::param_shapes(node.spec, inputs)) {
      if (param.name == "weight") {  // [out, in, window...]
        std::int64_t window = 1;
        for (std::size_t axis = 2; axis < param.shape.rank(); ++axis) window *= param.shape[axis];
        fan_in = param.shape[1] * window;
        fan_out = param.shape[0] * window;
      }
      Initializer initializer;
      if (param.name == "weight") initializer = weight;
      if (param.name == "bias") initializer = bias;
      if (param.name == "gamma") initializer = {"ones", 0};
      if (param.name == "beta") initializer = {"zeros", 0};
      node.params.push_back(static_cast<int>(network_.params.size()));
      network_.params.push_back({node.name + "." + param.name, param.shape, initializer, fan_in, fan_out});
    }
    for (const device::ParamShape& state : device::state_shapes(node.spec, inputs)) {
      node.states.push_back(static_cast<int>(network_.states.size()));
      network_.states.push_back({node.name + "." + state.name, state.shape, state.name == "running_var" ? 1.0f : 0.0f});
    }
  }

  void check_loss() const {
    const Node& last = network_.nodes.back();
    if (network_.loss.kind != device::LossSpec::Kind::softmax_cross_entropy) return;
    if (network_.output.rank() != 1 || network_.output[0] < 2)
      fail(ExitCode::usage,
           "{}: layer '{}': softmax_cross_entropy expects one output per class, at least 2, found output shape {}; end "
           "the network with dense: {{units: <classes>}}",
           last.where, last.name, network_.output.text());
    if (network_.top_k >= network_.output[0])
      fail(ExitCode::usage, "model.metrics.top_k: expected less than the {} classes, found {}", network_.output[0],
           network_.top_k);
  }

  Network network_;
  std::uint32_t dropouts_ = 0;
};

}  // namespace

Network build_network(const ModelOptions& options) {
  if (options.input.rank() == 0 || options.input.elements() <= 0)
    fail(ExitCode::usage, "model.input: expected the shape of one sample, e.g. [1, 28, 28], found {}",
         options.input.text());
  Builder builder(options);
  const int output = builder.add_list(options.layers, network_input);
  Network network = builder.finish(output);
  fuse(network);
  return network;
}

std::int64_t Network::parameter_count() const {
  std::int64_t count = 0;
  for (const ParamInfo& param : params) count += param.shape.elements();
  return count;
}

const Shape& Network::input_shape(const Node& node, std::size_t k) const {
  const int source = node.inputs[k];
  return source == network_input ? input : nodes[static_cast<std::size_t>(source)].output;
}

double Network::forward_flops() const {
  double flops = 0;
  for (const Node& node : nodes) {
    std::vector<Shape> shapes;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) shapes.push_back(input_shape(node, k));
    flops += device::forward_flops(node.spec, shapes);
  }
  return flops;
}

bool Network::has_global_statistics() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    const auto* norm = std::get_if<device::BatchNormSpec>(&node.spec);
    return norm && norm->group == 0;
  });
}

std::int64_t Network::batch_norm_group() const {
  std::int64_t group = 1;
  for (const Node& node : nodes)
    if (const auto* norm = std::get_if<device::BatchNormSpec>(&node.spec); norm && norm->group > 0)
      group = std::lcm(group, norm->group);
  return group;
}

std::vector<std::string> describe(const Network& network) {
  std::vector<std::string> lines;
  for (const Node& node : network.nodes) {
    std::int64_t count = 0;
    for (int param : node.params) count += network.params[static_cast<std::size_t>(param)].shape.elements();
    lines.push_back(
        fmt::format("{:<40} {:<12} {:<18} {:>10}", node.name, device::name_of(node.spec), node.output.text(), count));
  }
  return lines;
}

}  // namespace muster::model
