// Optimizer steps over slices of the arenas: the numbers of a step, made once on the host, then one launch per slice of
// equal weight decay.
#pragma once

#include "device/cuda/context.hpp"

#include <muster/device/update.hpp>

#include <string>

namespace muster::device::cuda {

/// "" where `update` knows the rule.
std::string why_no_update(const UpdateRule& rule);
void update(Context& context, const UpdateRule& rule, const UpdateArenas& arenas);

}  // namespace muster::device::cuda
