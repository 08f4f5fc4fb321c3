#include <muster/train/gpt2.hpp>

#include <muster/base/error.hpp>

#include <algorithm>
#include <array>

namespace muster::train {
namespace {

struct Name {
  std::string theirs;
  bool is_transposed = false;
};

/// Ending of our name -> name inside a block. The first one begins a block.
struct Ending {
  const char* ours;
  const char* theirs;
  bool is_transposed;
};
constexpr std::array endings{
    Ending{".norm_1.gamma", "ln_1.weight", false},
    Ending{".norm_1.beta", "ln_1.bias", false},
    Ending{".attention.qkv.weight", "attn.c_attn.weight", true},
    Ending{".attention.qkv.bias", "attn.c_attn.bias", false},
    Ending{".attention.projection.weight", "attn.c_proj.weight", true},
    Ending{".attention.projection.bias", "attn.c_proj.bias", false},
    Ending{".norm_2.gamma", "ln_2.weight", false},
    Ending{".norm_2.beta", "ln_2.bias", false},
    Ending{".mlp.up.weight", "mlp.c_fc.weight", true},
    Ending{".mlp.up.bias", "mlp.c_fc.bias", false},
    Ending{".mlp.down.weight", "mlp.c_proj.weight", true},
    Ending{".mlp.down.bias", "mlp.c_proj.bias", false},
};

/// Per parameter of the network.
std::vector<Name> names_of(const model::Network& network) {
  std::vector<Name> names;
  int block = -1;
  for (std::size_t p = 0; p < network.params.size(); ++p) {
    const std::string& own = network.params[p].name;
    const auto user = std::find_if(network.nodes.begin(), network.nodes.end(), [&](const model::Node& node) {
      return std::count(node.params.begin(), node.params.end(), static_cast<int>(p)) > 0;
    });
    const auto ending =
        std::find_if(endings.begin(), endings.end(), [&](const Ending& e) { return own.ends_with(e.ours); });
    if (ending == endings.begin()) ++block;
    if (ending != endings.end())
      names.push_back({fmt::format("h.{}.{}", block, ending->theirs), ending->is_transposed});
    else if (std::holds_alternative<device::EmbeddingSpec>(user->spec)) names.push_back({"wte.weight"});
    else if (std::holds_alternative<device::PositionalEmbeddingSpec>(user->spec)) names.push_back({"wpe.weight"});
    else if (std::holds_alternative<device::LayerNormSpec>(user->spec))
      names.push_back({own.ends_with(".gamma") ? "ln_f.weight" : "ln_f.bias"});
    else if (std::holds_alternative<device::DenseSpec>(user->spec) && own.ends_with(".weight"))
      names.push_back({"lm_head.weight"});
    else fail(ExitCode::usage, "GPT-2 has nothing like the parameter '{}'", own);
  }
  for (std::size_t p = 0; p < names.size(); ++p)
    for (std::size_t q = 0; q < p; ++q)
      if (names[p].theirs == names[q].theirs)
        fail(ExitCode::usage, "GPT-2 has one '{}', the network has '{}' and '{}'", names[p].theirs,
             network.params[q].name, network.params[p].name);
  return names;
}

const NamedTensor* find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name || tensor.name == "transformer." + name) return &tensor;
  return nullptr;
}

Shape transposed(const Shape& shape) { return {shape[1], shape[0]}; }

std::vector<float> transposed(const std::vector<float>& values, const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = values[i * columns + j];
  return out;
}

NamedTensor renamed(const NamedTensor& from, const std::string& name, bool is_transposed) {
  if (!is_transposed) return {name, from.shape, from.values};
  return {name, transposed(from.shape), transposed(from.values, from.shape)};
}

}  // namespace

std::vector<NamedTensor> to_gpt2(const model::Network& network, const std::vector<NamedTensor>& own) {
  const std::vector<Name> names = names_of(network);
  std::vector<NamedTensor> result;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const NamedTensor* tensor = find(own, network.params[p].name);
    if (!tensor) fail(ExitCode::checkpoint, "expected the parameter '{}', found none", network.params[p].name);
    result.push_back(renamed(*tensor, names[p].theirs, names[p].is_transposed));
  }
  return result;
}

std::vector<NamedTensor> from_gpt2(const model::Network& network, const std::vector<NamedTensor>& theirs) {
  const std::vector<Name> names = names_of(network);
  std::vector<NamedTensor> result;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const model::ParamInfo& param = network.params[p];
    const NamedTensor* tensor = find(theirs, names[p].theirs);
    if (!tensor)
      fail(ExitCode::checkpoint, "expected the tensor '{}' for '{}', found none", names[p].theirs, param.name);
    const Shape expected = names[p].is_transposed ? transposed(param.shape) : param.shape;
    if (tensor->shape != expected)
      fail(ExitCode::checkpoint, "expected the tensor '{}' with shape {} for '{}', found {}", names[p].theirs,
           expected.text(), param.name, tensor->shape.text());
    result.push_back(renamed(*tensor, param.name, names[p].is_transposed));
  }
  return result;
}

bool is_gpt2(const std::vector<NamedTensor>& tensors) { return find(tensors, "wte.weight") != nullptr; }

}  // namespace muster::train
