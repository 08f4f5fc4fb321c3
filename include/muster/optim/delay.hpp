// Gradients that come late: computed at weights that others have moved on from.
#pragma once

#include <cstdint>
#include <span>

namespace muster::optim {

/// Of a gradient g computed at weights `then`, an estimate of the gradient at `now`:
///
///   out = s g + lambda (s g) (s g) (now - then)        element by element, s = grad_scale (clipping)
///
/// the first terms of the Taylor series with the outer product of the gradient in the place of the Hessian, of which
/// only the diagonal is kept (DC-ASGD: Zheng et al., "Asynchronous stochastic gradient descent with delay
/// compensation", ICML 2017, equation 10). All spans have the length of `out`, which may be the gradient. Every element
/// by itself, so that a shard's are those of the whole.
void compensate_delay(std::span<const float> gradient, double grad_scale, double lambda, std::span<const float> now,
                      std::span<const float> then, std::span<float> out);

}  // namespace muster::optim
