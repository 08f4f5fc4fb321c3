// The weights of a GPT-2 network under the names of Hugging Face's files, and back. There, dense weights of the blocks
// are [in, out] (ours: [out, in]); queries, keys and values are one matrix, as here; the tied head is not stored.
//
//   wte.weight wpe.weight  h.N.{ln_1,ln_2}.{weight,bias}  h.N.attn.{c_attn,c_proj}.*  h.N.mlp.{c_fc,c_proj}.*  ln_f.*
#pragma once

#include <muster/model/network.hpp>
#include <muster/train/checkpoint.hpp>

#include <vector>

namespace muster::train {

/// own: tensors named as the network's parameters, in any order. Throws Error(usage) naming the first layer that is not
/// as in GPT-2: causal attention with as many key as query heads and no rotary positions, layer_norm with epsilon 1e-5,
/// gelu by tanh, biases, a hidden width of 4 times the width. Any number of heads and dropout fit.
std::vector<NamedTensor> to_gpt2(const model::Network& network, const std::vector<NamedTensor>& own);
/// The reverse; a prefix "transformer." is taken off, masks ("attn.bias") and a stored copy of the tied head are passed
/// over. Throws Error(checkpoint) naming the first tensor that is missing, has another shape or is not used, and
/// Error(usage) as above.
std::vector<NamedTensor> from_gpt2(const model::Network& network, const std::vector<NamedTensor>& theirs);
bool is_gpt2(const std::vector<NamedTensor>& tensors);

}  // namespace muster::train
