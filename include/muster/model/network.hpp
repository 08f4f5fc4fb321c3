// The network as a graph of ops: what the layer list of the config means, checked and with every shape known. Pure
// data, no memory, no backend. Node i reads outputs of nodes before it (or the network's input, index `network_input`).
#pragma once

#include <muster/device/spec.hpp>
#include <muster/model/layers.hpp>

#include <span>

#include <string>
#include <vector>

namespace muster::model {

inline constexpr int network_input = -1;
/// Of a stage of a pipeline (model/stages.hpp): what enters it comes in place of the network's input, as sources -1, -2
/// ...
constexpr int entering_value(std::size_t k) { return -1 - static_cast<int>(k); }
constexpr bool is_entering(int source) { return source < 0; }
constexpr std::size_t entering_index(int source) { return static_cast<std::size_t>(-1 - source); }

/// A trainable parameter. `name` is "<layer>.<weight|bias|gamma|beta>": the key of checkpoints.
struct ParamInfo {
  std::string name;
  Shape shape;
  Initializer initializer;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
  int index = -1;  ///< in the whole network, of which this one may be a stage: start values are drawn by it
  std::vector<int> holders = {};  ///< stages that hold a copy, ascending; empty: this one alone
};

/// A running value that is not trained, e.g. "<layer>.running_mean".
struct StateInfo {
  std::string name;
  Shape shape;
  float initial = 0.0f;
};

struct Node {
  std::string name;   ///< of the layer; fused layers are joined by "+"
  std::string where;  ///< place in the config, for messages
  device::OpSpec spec;
  std::vector<int> inputs;  ///< node indices or network_input (of a stage: entering_value)
  Shape output;             ///< of one sample
  std::vector<int> params;  ///< indices into Network::params; nodes with tied weights hold the same index
  std::vector<int> states;
};

/// A value that another stage has made.
struct Entering {
  Shape shape;                ///< of one sample
  bool has_gradient = false;  ///< something before it is trained: that stage wants its gradient
};

struct Network {
  Shape input;              ///< of one sample
  Shape output;             ///< of one sample: what the loss sees
  std::vector<Node> nodes;  ///< in order of execution; the last one is the output
  std::vector<ParamInfo> params;
  std::vector<StateInfo> states;
  device::LossSpec loss;
  int top_k = 0;
  // Of a stage of a pipeline only; input, output and loss are then those of the whole network.
  std::vector<Entering> entering;  ///< empty: the input enters
  int leaving = 0;                 ///< so many of the last nodes are for the next stage; 0: the last one is the output

  bool has_loss() const { return leaving == 0; }
  /// Shapes of what enters, per sample: the input, or what other stages have made.
  std::vector<Shape> entering_shapes() const;

  std::int64_t parameter_count() const;
  double forward_flops() const;  ///< of one sample
  /// Whether the samples of a batch need each other (batch norm of global scope).
  bool has_global_statistics() const;
  /// Largest group of a group-scope batch norm, 1 without: batches are cut at multiples of it.
  std::int64_t batch_norm_group() const;
  /// Whether node `node` is the first that uses parameter `param`: the last to know its gradient.
  bool is_first_user(int node, int param) const;
  bool is_tied(int param) const;
  /// Targets of one sample: labels (one per position) of softmax_cross_entropy, else numbers.
  std::int64_t targets_per_sample() const;
  /// Of softmax_cross_entropy: the last extent of the output.
  std::int64_t classes() const { return output[output.rank() - 1]; }
  /// Shape of input k of a node, per sample.
  const Shape& input_shape(const Node& node, std::size_t k) const;
};

/// Expands the layer list, infers and checks shapes, then joins layers whose tails fuse (conv+relu,
/// batch_norm+add+relu, flatten+dense ...). Throws Error(usage) naming the layer, its place and the shapes.
Network build_network(const ModelOptions& options);

/// The same parameters for one token at a time: input [1], attention with caches of the model's positions (run with
/// RunContext::position). Throws Error(usage) where the model is no causal model of tokens.
Network build_decoder(const ModelOptions& options);

/// Fuses in place; part of build_network, separate for tests.
void fuse(Network& network);

/// One line per node: name, op, output shape, parameters. For `check` and the start-up log.
std::vector<std::string> describe(const Network& network);

/// Writes the start values of parameter `index` in plain order: a pure function of (seed, index, element).
void initialise(const ParamInfo& param, int index, std::uint64_t seed, std::span<float> plain);

}  // namespace muster::model
