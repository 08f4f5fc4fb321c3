#include <muster/base/check.hpp>
#include <muster/model/parameters.hpp>

#include <algorithm>

namespace muster::model {
namespace {

constexpr std::int64_t slice_alignment = 16;  // floats: 64 bytes

bool ends_with_any(const std::string& name, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) { return name.ends_with(ending); });
}

}  // namespace

ParameterStore::ParameterStore(const Network& network, device::Backend& backend, std::vector<device::TensorDesc> descs)
    : network_(network), backend_(backend), descs_(std::move(descs)), slices_(network.params.size()) {
  MUSTER_CHECK_EQ(descs_.size(), network_.params.size());
  for (int node = static_cast<int>(network_.nodes.size()) - 1; node >= 0; --node) {  // the order of the backward pass
    for (int param : network_.nodes[static_cast<std::size_t>(node)].params) {
      if (!network_.is_first_user(node, param)) continue;  // tied: its gradient is complete with the first user's
      const auto p = static_cast<std::size_t>(param);
      const std::int64_t count = descs_[p].padded_elements();
      slices_[p] = {elements_, elements_ + count};
      elements_ += (count + slice_alignment - 1) / slice_alignment * slice_alignment;
    }
  }
  weights_ = backend_.allocate(static_cast<std::size_t>(std::max<std::int64_t>(elements_, 1)) * sizeof(float));
  for (std::size_t s = 0; s < network_.states.size(); ++s) {
    const StateInfo& state = network_.states[s];
    const auto count = static_cast<std::size_t>(state.shape.elements());
    states_.push_back(backend_.allocate(std::max<std::size_t>(count, 1) * sizeof(float)));
    write_state(static_cast<int>(s), std::vector<float>(count, state.initial));
  }
  if (!backend_.has_host_memory()) host_weights_.resize(static_cast<std::size_t>(elements_));
}

std::span<float> ParameterStore::state(int index) {
  const auto s = static_cast<std::size_t>(index);
  return {static_cast<float*>(states_[s]->data()), static_cast<std::size_t>(network_.states[s].shape.elements())};
}

std::vector<float> ParameterStore::read_state(int index) {
  const std::span<float> from = state(index);
  std::vector<float> values(from.size());
  backend_.copy_out(values.data(), from.data(), from.size_bytes());
  return values;
}

void ParameterStore::write_state(int index, std::span<const float> values) {
  const std::span<float> to = state(index);
  MUSTER_CHECK_EQ(values.size(), to.size());
  backend_.copy_in(to.data(), values.data(), values.size_bytes());
}

bool ParameterStore::are_weights_finite() {
  std::span<const float> values = weights();
  if (!backend_.has_host_memory()) {
    backend_.copy_out(host_weights_.data(), values.data(), values.size_bytes());
    values = host_weights_;
  }
  float zero = 0;  // NaN and Inf times zero are NaN; padding between the slices is zero
  for (float value : values) zero += value * 0.0f;
  return zero == 0.0f;
}

void ParameterStore::initialise(std::uint64_t seed) {
  for (std::size_t p = 0; p < network_.params.size(); ++p) {
    std::vector<float> plain(static_cast<std::size_t>(network_.params[p].shape.elements()));
    const int index = network_.params[p].index;
    model::initialise(network_.params[p], index < 0 ? static_cast<int>(p) : index, seed, plain);
    from_plain(static_cast<int>(p), plain, weights());
  }
  for (std::size_t s = 0; s < states_.size(); ++s)
    write_state(static_cast<int>(s), std::vector<float>(state(static_cast<int>(s)).size(), network_.states[s].initial));
}

std::vector<float> ParameterStore::to_plain(int param, std::span<const float> arena) const {
  const auto p = static_cast<std::size_t>(param);
  std::vector<float> plain(static_cast<std::size_t>(network_.params[p].shape.elements()));
  backend_.to_plain(descs_[p], arena.data() + slices_[p].begin, plain.data());
  return plain;
}

void ParameterStore::from_plain(int param, std::span<const float> plain, std::span<float> arena) const {
  const auto p = static_cast<std::size_t>(param);
  MUSTER_CHECK_EQ(static_cast<std::int64_t>(plain.size()), network_.params[p].shape.elements());
  backend_.from_plain(descs_[p], plain.data(), arena.data() + slices_[p].begin);
}

std::vector<optim::ParamRun> ParameterStore::runs(const std::vector<std::string>& no_decay) const {
  std::vector<optim::ParamRun> runs;
  for (std::size_t p = 0; p < network_.params.size(); ++p)
    runs.push_back({network_.params[p].name, slices_[p], !ends_with_any(network_.params[p].name, no_decay)});
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.elements.begin < b.elements.begin; });
  return runs;
}

}  // namespace muster::model
