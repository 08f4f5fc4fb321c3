// Numbers with meaning have types: a world rank is not a replica index, bytes are not elements.
#pragma once

#include <compare>
#include <cstdint>

namespace muster {

template <class Tag>
struct Id {
  int value = -1;
  constexpr Id() = default;
  constexpr explicit Id(int v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using WorldRank = Id<struct WorldRankTag>;   ///< rank in the whole job
using ReplicaIndex = Id<struct ReplicaTag>;  ///< index among data-parallel replicas
using NodeIndex = Id<struct NodeTag>;        ///< index of a host, in order of its lowest world rank

/// A half-open range of sample, row, grain or element indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool operator==(const Range&) const = default;
};

}  // namespace muster
