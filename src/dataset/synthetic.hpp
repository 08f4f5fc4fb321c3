// A dataset made of numbers: class means drawn from the seed plus noise, so that training converges; a pure function of
// (seed, split, index).
#pragma once

#include <muster/dataset/dataset.hpp>

namespace muster::dataset {

std::unique_ptr<Dataset> make_synthetic(const SyntheticOptions& options, std::int64_t samples, std::uint64_t seed,
                                        std::uint32_t split);

}  // namespace muster::dataset
