// Continuing a text with a trained network, one token at a time, with caches of keys and values.
#pragma once

#include <muster/dataset/vocabulary.hpp>
#include <muster/train/restore.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace muster::train {

struct GenerateOptions {
  std::string prompt;
  std::int64_t tokens = 100;  ///< to be added
  double temperature = 1.0;   ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;     ///< draw among the k likeliest tokens only; 0: among all
  std::uint64_t seed = 0;
};

/// The text behind the prompt. Token t of the answer depends on the prompt, the options and the weights alone. Throws
/// Error(usage) where prompt and answer are longer than the network's input or the network is no causal model of
/// tokens, Error(data) where the vocabulary does not fit the network or the prompt has signs outside it.
std::string generate(TrainedNetwork& trained, const dataset::Vocabulary& vocabulary, const GenerateOptions& options);

/// Index of the drawn token. uniform: in [0, 1). Ties go to the lower index.
std::int64_t draw_token(std::span<const float> logits, double temperature, std::int64_t top_k, double uniform);

}  // namespace muster::train
