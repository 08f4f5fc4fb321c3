// A trained network as an ONNX model (https://onnx.ai), for programs that apply networks without muster.
#pragma once

#include <muster/model/network.hpp>
#include <muster/train/checkpoint.hpp>

#include <string>
#include <vector>

namespace muster::train {

/// The operator set that the model states; every runtime since ONNX 1.12 (2022) has it.
inline constexpr std::int64_t onnx_opset = 17;

/// The bytes of a model of one input, "input": [n, sample...], and one output, "output": what the loss sees (logits,
/// not probabilities), in evaluation: dropout gone, batch norms by their running values. Token ids are int64. The input
/// is what the network is given, that is behind data.transforms. n is free; a sequence has the length of the config.
/// tensors: parameters and running values by name, plain. Throws Error(usage) above the 2 GiB that the format allows.
std::string to_onnx(const model::Network& network, const std::vector<NamedTensor>& tensors);

}  // namespace muster::train
