// Parameters and running state of one network on one rank: flat float arenas. Parameters lie in the order in which the
// backward pass finishes their gradients, each slice aligned to 64 bytes, so that a gradient bucket, an update and a
// message are all slices. Layouts are those chosen by the first compiled program; plain copies are for checkpoints.
// Weights and running values lie in the backend's memory, which the host may not be able to touch (Backend).
#pragma once

#include <muster/base/ids.hpp>
#include <muster/device/backend.hpp>
#include <muster/model/network.hpp>
#include <muster/optim/optimizer.hpp>

#include <memory>
#include <span>
#include <vector>

namespace muster::model {

class ParameterStore {
 public:
  /// descs[i]: layout of network.params[i]. The store keeps a reference to both arguments' owner for its life.
  ParameterStore(const Network& network, device::Backend& backend, std::vector<device::TensorDesc> descs);

  std::int64_t elements() const { return elements_; }  ///< of the arena, padding included
  Range slice(int param) const { return slices_[static_cast<std::size_t>(param)]; }
  const std::vector<device::TensorDesc>& descs() const { return descs_; }
  /// In the backend's memory.
  std::span<float> weights() { return {static_cast<float*>(weights_->data()), static_cast<std::size_t>(elements_)}; }
  std::span<float> state(int index);  ///< running value `index`, plain, in the backend's memory
  /// A copy of running value `index` on the host, and the reverse.
  std::vector<float> read_state(int index);
  void write_state(int index, std::span<const float> values);
  /// Whether no weight is NaN or Inf.
  bool are_weights_finite();

  void initialise(std::uint64_t seed);
  /// Plain copy of parameter `param` out of / into an arena with this store's slices (weights or an optimizer slot).
  std::vector<float> to_plain(int param, std::span<const float> arena) const;
  void from_plain(int param, std::span<const float> plain, std::span<float> arena) const;

  /// For the optimizer, in arena order. no_decay: name endings without weight decay.
  std::vector<optim::ParamRun> runs(const std::vector<std::string>& no_decay) const;

 private:
  const Network& network_;
  device::Backend& backend_;
  std::vector<device::TensorDesc> descs_;
  std::vector<Range> slices_;
  std::int64_t elements_ = 0;
  std::unique_ptr<device::Buffer> weights_;
  std::vector<std::unique_ptr<device::Buffer>> states_;
  std::vector<float> host_weights_;  // room for are_weights_finite; empty where the host can read the weights
};

}  // namespace muster::model
