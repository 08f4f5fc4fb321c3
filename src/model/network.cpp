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
  /// cache: 0, or the length of key/value caches; the input is then one token.
  Builder(const ModelOptions& options, std::int64_t cache) : cache_(cache), length_(options.input[0]) {
    network_.input = cache > 0 ? Shape{1} : options.input;
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
    for (std::size_t p = 0; p < network_.params.size(); ++p) network_.params[p].index = static_cast<int>(p);
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
    const int node = add_node(layer, options.op, {input}, options.weight, options.bias);
    if (!options.tied_to.empty()) tie(layer, options.tied_to);
    return node;
  }

  /// Lets the newest node use the weight of an earlier layer in place of its own, which is the newest but its bias.
  void tie(const LayerSpec& layer, const std::string& other) {
    Node& node = network_.nodes.back();
    const std::size_t own = static_cast<std::size_t>(node.params[0]);
    const auto end = network_.params.begin() + static_cast<std::ptrdiff_t>(own);
    const auto found =
        std::find_if(network_.params.begin(), end, [&](const ParamInfo& p) { return p.name == other + ".weight"; });
    if (found == end)
      fail(ExitCode::usage, "{}: layer '{}': tie: expected the name of an earlier layer with a weight, found '{}'",
           layer.where, layer.name, other);
    if (found->shape != network_.params[own].shape)
      fail(ExitCode::usage, "{}: layer '{}': its weight {} cannot be tied to that of '{}', {}", layer.where, layer.name,
           network_.params[own].shape.text(), other, found->shape.text());
    network_.params.erase(end);
    node.params[0] = static_cast<int>(found - network_.params.begin());
    for (std::size_t i = 1; i < node.params.size(); ++i) --node.params[i];
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

  int visit(const LayerSpec& layer, const EmbeddingLayer& options, int input) {
    return add_node(layer, options.op, {input}, options.weight);
  }
  int visit(const LayerSpec& layer, const PositionalEmbeddingLayer& options, int input) {
    device::PositionalEmbeddingSpec spec = options.op;
    if (spec.length == 0) spec.length = cache_ > 0 ? length_ : shape_of(input)[0];
    return add_node(layer, spec, {input}, options.weight);
  }
  int visit(const LayerSpec& layer, const RmsNormLayer& options, int input) {
    return add_node(layer, options.op, {input});
  }
  int visit(const LayerSpec& layer, const SwigluLayer&, int input) {
    return add_node(layer, device::SwigluSpec{}, {input});
  }

  static LayerSpec part(const LayerSpec& layer, const std::string& name) {
    return {layer.name + "." + name, layer.where, {}, {}, {}};
  }
  std::int64_t width_of(const LayerSpec& layer, int input) const {
    const Shape& shape = shape_of(input);
    if (shape.rank() != 2)
      fail(ExitCode::usage, "{}: layer '{}': expected an input [positions, features], found {}", layer.where,
           layer.name, shape.text());
    return shape[1];
  }
  int add_dense(const LayerSpec& layer, std::int64_t units, bool has_bias, const Initializer& weight, int input) {
    return add_node(layer, device::DenseSpec{units, has_bias, device::Activation::none, true}, {input}, weight,
                    {"zeros", 0});
  }

  int visit(const LayerSpec& layer, const AttentionLayer& options, int input) {
    const std::int64_t width = width_of(layer, input);
    device::AttentionSpec spec;
    spec.heads = options.heads;
    spec.kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
    if (options.head_dim == 0 && (options.heads < 1 || width % options.heads != 0))
      fail(ExitCode::usage, "{}: layer '{}': {} heads must divide the width {}; or state head_dim", layer.where,
           layer.name, options.heads, width);
    spec.head_dim = options.head_dim > 0 ? options.head_dim : width / options.heads;
    spec.is_causal = options.is_causal;
    spec.dropout = options.dropout;
    spec.cache = cache_;
    if (options.dropout > 0) spec.stream = dropouts_++;
    const std::int64_t all_heads = spec.heads + 2 * spec.kv_heads;
    int at = add_dense(part(layer, "qkv"), all_heads * spec.head_dim, options.has_bias, options.weight, input);
    if (options.rotary_base > 0)
      at = add_node(part(layer, "rotary"),
                    device::RotarySpec{spec.heads + spec.kv_heads, spec.head_dim, options.rotary_base}, {at});
    at = add_node(layer, spec, {at});
    return add_dense(part(layer, "projection"), width, options.has_bias, options.projection, at);
  }

  int visit(const LayerSpec& layer, const MlpLayer& options, int input) {
    const std::int64_t width = width_of(layer, input);
    std::int64_t hidden = options.hidden;
    if (hidden == 0) hidden = options.is_swiglu ? (8 * width / 3 + 7) / 8 * 8 : 4 * width;
    int at =
        add_dense(part(layer, "up"), options.is_swiglu ? 2 * hidden : hidden, options.has_bias, options.weight, input);
    if (options.is_swiglu) at = add_node(part(layer, "swiglu"), device::SwigluSpec{}, {at});
    else
      at = add_node(part(layer, "gelu"), device::ActivationSpec{device::Activation::gelu, 0.01f, options.is_gelu_tanh},
                    {at});
    return add_dense(part(layer, "down"), width, options.has_bias, options.projection, at);
  }

  int visit(const LayerSpec& layer, const TransformerLayer& options, int input) {
    const auto norm = [&](const char* name, int from) {
      const LayerSpec spec = part(layer, name);
      if (options.is_rms_norm) return add_node(spec, device::RmsNormSpec{options.epsilon}, {from});
      return add_node(spec, device::LayerNormSpec{options.epsilon, true}, {from});
    };
    const auto join = [&](const char* dropout, const char* add, int branch, int stem) {
      if (options.dropout > 0) branch = visit(part(layer, dropout), DropoutLayer{{options.dropout, 0}}, branch);
      return add_node(part(layer, add), device::AddSpec{}, {branch, stem});
    };
    const int attended = visit(part(layer, "attention"), options.attention, norm("norm_1", input));
    const int middle = join("dropout_1", "add_1", attended, input);
    return join("dropout_2", "add_2", visit(part(layer, "mlp"), options.mlp, norm("norm_2", middle)), middle);
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
    const std::size_t rank = network_.output.rank();
    if (rank < 1 || rank > 2 || network_.classes() < 2)
      fail(ExitCode::usage,
           "{}: layer '{}': softmax_cross_entropy expects one output per class, at least 2, found output shape {}; end "
           "the network with dense: {{units: <classes>}}",
           last.where, last.name, network_.output.text());
    if (network_.top_k >= network_.classes())
      fail(ExitCode::usage, "model.metrics.top_k: expected less than the {} classes, found {}", network_.classes(),
           network_.top_k);
  }

  Network network_;
  std::int64_t cache_, length_;
  std::uint32_t dropouts_ = 0;
};

}  // namespace

Network build_network(const ModelOptions& options) {
  if (options.input.rank() == 0 || options.input.elements() <= 0)
    fail(ExitCode::usage, "model.input: expected the shape of one sample, e.g. [1, 28, 28], found {}",
         options.input.text());
  Builder builder(options, 0);
  const int output = builder.add_list(options.layers, network_input);
  Network network = builder.finish(output);
  fuse(network);
  return network;
}

Network build_decoder(const ModelOptions& options) {
  const Network whole = build_network(options);
  const auto fails = [](const std::string& why) {
    fail(ExitCode::usage, "this model cannot continue a text: {}", why);
  };
  if (whole.input.rank() != 1 || whole.output.rank() != 2 || whole.output[0] != whole.input[0])
    fails(fmt::format("expected an input [positions] and an output [positions, tokens], found {} and {}",
                      whole.input.text(), whole.output.text()));
  for (const Node& node : whole.nodes)
    if (const auto* spec = std::get_if<device::AttentionSpec>(&node.spec); spec && !spec->is_causal)
      fails(fmt::format("the attention of layer '{}' is not causal", node.name));
  Builder builder(options, whole.input[0]);
  const int output = builder.add_list(options.layers, network_input);
  Network network = builder.finish(output);
  fuse(network);
  const bool has_same_params =
      std::equal(whole.params.begin(), whole.params.end(), network.params.begin(), network.params.end(),
                 [](const ParamInfo& a, const ParamInfo& b) { return a.name == b.name && a.shape == b.shape; });
  if (!has_same_params) fails("a layer mixes the positions of its input; use layers that work per position");
  return network;
}

bool Network::is_first_user(int node, int param) const {
  const auto uses = [&](const Node& n) { return std::count(n.params.begin(), n.params.end(), param) > 0; };
  const auto first = std::find_if(nodes.begin(), nodes.end(), uses);
  return first - nodes.begin() == node;
}

bool Network::is_tied(int param) const {
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const Node& n) { return std::count(n.params.begin(), n.params.end(), param) > 0; }) > 1;
}

std::int64_t Network::targets_per_sample() const {
  const bool is_labels = loss.kind == device::LossSpec::Kind::softmax_cross_entropy;
  return is_labels ? output.elements() / classes() : output.elements();
}

std::int64_t Network::parameter_count() const {
  std::int64_t count = 0;
  for (const ParamInfo& param : params) count += param.shape.elements();
  return count;
}

const Shape& Network::input_shape(const Node& node, std::size_t k) const {
  const int source = node.inputs[k];
  if (!is_entering(source)) return nodes[static_cast<std::size_t>(source)].output;
  return entering.empty() ? input : entering[entering_index(source)].shape;
}

std::vector<Shape> Network::entering_shapes() const {
  if (entering.empty()) return {input};
  std::vector<Shape> shapes;
  for (const Entering& value : entering) shapes.push_back(value.shape);
  return shapes;
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
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    std::int64_t count = 0;
    for (int param : node.params)
      if (network.is_first_user(static_cast<int>(i), param))
        count += network.params[static_cast<std::size_t>(param)].shape.elements();
    lines.push_back(
        fmt::format("{:<40} {:<12} {:<18} {:>10}", node.name, device::name_of(node.spec), node.output.text(), count));
  }
  return lines;
}

}  // namespace muster::model
