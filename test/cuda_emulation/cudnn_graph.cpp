#include "cuda_emulation/cudnn_graph.hpp"

#include <algorithm>

namespace emulation {
namespace {

using Index = std::vector<std::int64_t>;

/// Calls `visit` with every index of a tensor.
template <class Visit>
void for_each(const Index& dims, const Visit& visit) {
  Index index(dims.size(), 0);
  for (;;) {
    visit(index);
    std::size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

struct Tensors {
  std::map<std::int64_t, float*> memory;
  std::map<std::int64_t, std::vector<float>> between;
  float* of(const GraphTensor& tensor) {
    if (!tensor.is_virtual) return memory.at(tensor.id);
    std::vector<float>& values = between[tensor.id];
    values.resize(tensor.bytes() / sizeof(float));
    return values.data();
  }
};

/// Visits all products of a convolution: (index in x, in the weight, in y).
template <class Visit>
void for_each_product(const GraphStep& s, const Visit& visit) {
  const std::int64_t inner = s.weight.dims[1], per_group = s.y.dims[1] / (s.x.dims[1] / inner);
  for_each(s.y.dims, [&](const Index& y) {
    for_each({inner, s.weight.dims[2], s.weight.dims[3]}, [&](const Index& tap) {
      const std::int64_t row = y[2] * s.strides[0] - s.padding_before[0] + tap[1] * s.dilations[0];
      const std::int64_t column = y[3] * s.strides[1] - s.padding_before[1] + tap[2] * s.dilations[1];
      if (row < 0 || row >= s.x.dims[2] || column < 0 || column >= s.x.dims[3]) return;
      visit(s.x.at({y[0], y[1] / per_group * inner + tap[0], row, column}), s.weight.at({y[1], tap[0], tap[1], tap[2]}),
            s.y.at(y));
    });
  });
}

void convolve(const GraphStep& s, Tensors& tensors) {
  float *x = tensors.of(s.x), *weight = tensors.of(s.weight), *y = tensors.of(s.y);
  const GraphTensor& result = s.kind == GraphStep::Kind::convolution      ? s.y
                              : s.kind == GraphStep::Kind::input_gradient ? s.x
                                                                          : s.weight;
  std::vector<double> sums(result.bytes() / sizeof(float), 0.0);
  for_each_product(s, [&](std::int64_t at_x, std::int64_t at_weight, std::int64_t at_y) {
    const auto product = [](const float* a, std::int64_t i, const float* b, std::int64_t j) {
      return double{a[i]} * double{b[j]};
    };
    if (s.kind == GraphStep::Kind::convolution) sums[at_y] += product(x, at_x, weight, at_weight);
    else if (s.kind == GraphStep::Kind::input_gradient) sums[at_x] += product(y, at_y, weight, at_weight);
    else sums[at_weight] += product(x, at_x, y, at_y);
  });
  float* to = tensors.of(result);
  for_each(result.dims, [&](const Index& index) {
    const std::int64_t at = result.at(index);
    to[at] = static_cast<float>(sums[static_cast<std::size_t>(at)]);
  });
}

void combine(const GraphStep& s, Tensors& tensors) {
  const float* x = tensors.of(s.x);
  const float* by = s.kind == GraphStep::Kind::add ? tensors.of(s.weight) : nullptr;
  float* y = tensors.of(s.y);
  for_each(s.y.dims, [&](const Index& index) {
    const float value = x[s.x.at(index)];
    y[s.y.at(index)] = by != nullptr ? value + by[s.weight.at(index)] : std::max(value, 0.0f);
  });
}

}  // namespace

std::int64_t GraphTensor::at(const std::vector<std::int64_t>& index) const {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) place += dims[d] == 1 ? 0 : index[d] * strides[d];
  return place;
}

std::size_t GraphTensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return static_cast<std::size_t>(last + 1) * sizeof(float);
}

void run_steps(const std::vector<GraphStep>& steps, const std::map<std::int64_t, float*>& memory) {
  Tensors tensors{memory, {}};
  for (const GraphStep& step : steps) {
    if (step.kind == GraphStep::Kind::add || step.kind == GraphStep::Kind::relu) combine(step, tensors);
    else convolve(step, tensors);
  }
}

}  // namespace emulation
