// Timing one primitive against another, for `device.tune`. Which is faster differs by machine and shape; layouts of
// tensors must not depend on it, since ranks choose apart and exchange parameters as they lie.
#pragma once

#include "device/cpu/dnnl_tensor.hpp"

#include <utility>
#include <vector>

namespace muster::device::cpu {

/// An argument index (DNNL_ARG_...) and the format of its memory.
using Arguments = std::vector<std::pair<int, memory::desc>>;

/// Seconds of the best of a few runs on zeros; allocates its own memory.
double best_time_s(BoundPrimitive primitive, const Arguments& arguments);

/// `usual`, or what `make_other` gives if that has equal formats under `fixed` and is faster by more than noise.
/// make_other may throw dnnl::error: there is no other then.
template <class Primitive, class Desc, class MakeOther, class ArgumentsOf>
Desc faster(const Desc& usual, MakeOther make_other, ArgumentsOf arguments_of, const std::vector<int>& fixed) {
  constexpr double worthwhile = 0.95;
  try {
    const Desc other = make_other();
    const Arguments a = arguments_of(usual), b = arguments_of(other);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (int argument : fixed)
        if (a[i].first == argument && a[i].second != b[i].second) return usual;
    const double usual_s = best_time_s(BoundPrimitive(Primitive(usual), usual), a);
    return best_time_s(BoundPrimitive(Primitive(other), other), b) < worthwhile * usual_s ? other : usual;
  } catch (const dnnl::error&) {
    return usual;
  }
}

}  // namespace muster::device::cpu
