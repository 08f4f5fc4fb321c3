#include <muster/optim/delay.hpp>

#include <muster/base/check.hpp>

namespace muster::optim {

void compensate_delay(std::span<const float> gradient, double grad_scale, double lambda, std::span<const float> now,
                      std::span<const float> then, std::span<float> out) {
  const std::size_t size = out.size();
  MUSTER_CHECK(gradient.size() == size && now.size() == size && then.size() == size, "{}, {}, {} and {} elements",
               gradient.size(), now.size(), then.size(), size);
  const auto scale = static_cast<float>(grad_scale), strength = static_cast<float>(lambda);
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float g = scale * gradient[i];
    out[i] = g + strength * g * g * (now[i] - then[i]);
  }
}

}  // namespace muster::optim
