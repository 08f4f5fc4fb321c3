// The sum tree written as its definition says it: recursively, one leaf per grain. The truth for the tests of this
// module.
#pragma once

#include <muster/base/rng.hpp>

#include <cstdint>
#include <vector>

namespace muster::test {

/// Value of grain g at an element: random floats of very different sizes, so that every other order of additions shows.
inline float leaf(std::int64_t grain, std::int64_t element, std::int64_t step = 0) {
  const RandomStream stream(11, Purpose::test, static_cast<std::uint64_t>(grain), static_cast<std::uint32_t>(step));
  const auto e = static_cast<std::uint64_t>(element);
  const float scale = static_cast<float>(1 << stream.below(2 * e, 20));
  return (stream.uniform(2 * e + 1) - 0.5f) * scale;
}

/// Sum of leaves [first, first + span) cut at `grains`; span is a power of two.
template <class T, class Leaf>
T tree_sum(std::int64_t first, std::int64_t span, std::int64_t grains, const Leaf& leaf_of) {
  if (span == 1) return leaf_of(first);
  const std::int64_t middle = first + span / 2;
  const T left = tree_sum<T>(first, span / 2, grains, leaf_of);
  return middle < grains ? static_cast<T>(left + tree_sum<T>(middle, span / 2, grains, leaf_of)) : left;
}

template <class T, class Leaf>
T tree_total(std::int64_t grains, const Leaf& leaf_of) {
  std::int64_t span = 1;
  while (span < grains) span *= 2;
  return tree_sum<T>(0, span, grains, leaf_of);
}

}  // namespace muster::test
