// Joins ops whose tails run in one pass over memory: conv/dense/batch_norm/add + relu, batch_norm + add (residual),
// flatten + dense. Only where the joined value has no other reader, so the mathematics and every name stay the same.
#include <muster/model/network.hpp>

#include <algorithm>

namespace muster::model {
namespace {

using namespace device;

class Fuser {
 public:
  explicit Fuser(Network& network) : nodes_(network.nodes), is_removed_(network.nodes.size(), false) {}

  void run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) join_flatten(static_cast<int>(i));
    for (std::size_t i = 0; i < nodes_.size(); ++i) join_residual(static_cast<int>(i));
    for (std::size_t i = 0; i < nodes_.size(); ++i) join_relu(static_cast<int>(i));
    compact();
  }

 private:
  Node& node(int i) { return nodes_[static_cast<std::size_t>(i)]; }

  std::size_t readers(int of) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!is_removed_[i])
        count += static_cast<std::size_t>(std::count(nodes_[i].inputs.begin(), nodes_[i].inputs.end(), of));
    return count;
  }

  /// dense takes [n, ...] as it is: a reshape that only feeds it is not needed.
  void join_flatten(int i) {
    const auto* dense = std::get_if<DenseSpec>(&node(i).spec);
    if (!dense || dense->is_per_position) return;
    const int source = node(i).inputs[0];
    if (source == network_input || !std::holds_alternative<ReshapeSpec>(node(source).spec) || readers(source) != 1)
      return;
    node(i).inputs[0] = node(source).inputs[0];
    is_removed_[static_cast<std::size_t>(source)] = true;
  }

  /// add(batch_norm(x), r): the norm's last pass adds r. The norm moves to the place of the add, after r.
  void join_residual(int i) {
    if (!std::holds_alternative<AddSpec>(node(i).spec) || node(i).inputs.size() != 2) return;
    for (std::size_t k = 0; k < 2; ++k) {
      const int source = node(i).inputs[k];
      if (source == network_input || source == node(i).inputs[1 - k] || readers(source) != 1) continue;
      auto* norm = std::get_if<BatchNormSpec>(&node(source).spec);
      if (!norm || norm->has_residual) continue;
      Node joined = node(source);
      std::get<BatchNormSpec>(joined.spec).has_residual = true;
      joined.inputs.push_back(node(i).inputs[1 - k]);
      joined.name += "+" + node(i).name;
      joined.output = node(i).output;
      node(i) = std::move(joined);
      is_removed_[static_cast<std::size_t>(source)] = true;
      return;
    }
  }

  static Activation* fusable(OpSpec& spec) {
    if (auto* op = std::get_if<DenseSpec>(&spec)) return &op->activation;
    if (auto* op = std::get_if<Conv2dSpec>(&spec)) return &op->activation;
    if (auto* op = std::get_if<BatchNormSpec>(&spec)) return &op->activation;
    if (auto* op = std::get_if<AddSpec>(&spec)) return &op->activation;
    return nullptr;
  }

  /// relu(x): x's op applies it. Everything that read the relu now reads x.
  void join_relu(int i) {
    const auto* relu = std::get_if<ActivationSpec>(&node(i).spec);
    if (!relu || relu->kind != Activation::relu) return;
    const int source = node(i).inputs[0];
    if (source == network_input || readers(source) != 1) return;
    Activation* activation = fusable(node(source).spec);
    if (!activation || *activation != Activation::none) return;
    *activation = Activation::relu;
    node(source).name += "+" + node(i).name;
    for (Node& other : nodes_) std::replace(other.inputs.begin(), other.inputs.end(), i, source);
    is_removed_[static_cast<std::size_t>(i)] = true;
  }

  void compact() {
    std::vector<int> position(nodes_.size(), -1);
    std::vector<Node> kept;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_removed_[i]) continue;
      position[i] = static_cast<int>(kept.size());
      kept.push_back(std::move(nodes_[i]));
    }
    for (Node& n : kept)
      for (int& input : n.inputs)
        if (input != network_input) input = position[static_cast<std::size_t>(input)];
    nodes_ = std::move(kept);
  }

  std::vector<Node>& nodes_;
  std::vector<bool> is_removed_;
};

}  // namespace

void fuse(Network& network) { Fuser(network).run(); }

}  // namespace muster::model
