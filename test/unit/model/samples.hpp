// Samples for tests of whole networks.
#pragma once

#include <muster/base/rng.hpp>
#include <muster/model/network.hpp>

#include <variant>
#include <vector>

namespace muster::model::test {

/// rows x network.input: tokens for a network that begins with an embedding, else normal values. Always the same.
inline std::vector<float> random_inputs(const Network& network, std::int64_t rows) {
  const RandomStream stream(9, Purpose::test, 0, 0);
  std::vector<float> inputs(static_cast<std::size_t>(network.input.elements() * rows));
  const auto* embedding = std::get_if<device::EmbeddingSpec>(&network.nodes[0].spec);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = embedding ? static_cast<float>(stream.below(i, static_cast<std::uint32_t>(embedding->vocabulary)))
                          : stream.normal(i);
  return inputs;
}

/// The classes in turn, one for every target of every row.
inline std::vector<std::int32_t> labels_in_turn(const Network& network, std::int64_t rows) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows * network.targets_per_sample()));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(network.classes()));
  return labels;
}

}  // namespace muster::model::test
